"""No two local sandboxes share a user of the host."""

import os
from pathlib import Path

import pytest

from contracts.ids import SandboxId
from contracts.spec import Isolation, SandboxSpec
from infra.sandbox.local.blanks import make_blank, new_blank
from infra.sandbox.local.layout import DataFiles, SandboxFiles
from infra.sandbox.local.uids import FIRST_UID, LAST_UID, UidRange, set_uid_range, uid_allocation


class Taken(DataFiles):
    """One whose only blank becomes a sandbox right after the sandboxes were listed."""

    def ids(self) -> tuple[SandboxId, ...]:
        found = super().ids()
        for blank in self.blanks.glob("*"):
            blank.rename(self.of("sb-1").root)
        return found


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives sandboxes users of their own")


@needs_root
def test_users_are_counted_and_not_used_again(tmp_path: Path) -> None:
    files = DataFiles(tmp_path)
    files.sandboxes.mkdir()
    given = []
    for _ in range(3):
        with uid_allocation(files) as uid:
            given.append(uid)
    assert given == [FIRST_UID, FIRST_UID + 1, FIRST_UID + 2]


@needs_root
@pytest.mark.parametrize("noted", ["", "12", "not a uid!", f"{LAST_UID + 1:010}", "0000000000", "00002000000"])
def test_a_count_that_cannot_be_is_made_again_from_the_sandboxes(tmp_path: Path, noted: str) -> None:
    spec = SandboxSpec(isolation=Isolation.LOCAL)
    files = DataFiles(tmp_path)
    record = make_blank(spec, files, new_blank(spec, files))
    files.uid_lock.write_text(noted)
    assert record.host_uid is not None
    with uid_allocation(files) as uid:
        assert uid == record.host_uid + 1


@needs_root
def test_a_blank_that_is_taken_meanwhile_keeps_its_user_to_itself(tmp_path: Path) -> None:
    spec = SandboxSpec(isolation=Isolation.LOCAL)
    files: SandboxFiles = new_blank(spec, DataFiles(tmp_path))
    record = make_blank(spec, DataFiles(tmp_path), files)
    DataFiles(tmp_path).uid_lock.write_text("")
    with uid_allocation(Taken(tmp_path)) as uid:
        assert uid is not None
        assert uid != record.host_uid


@needs_root
def test_data_directories_that_share_a_host_have_a_range_each(tmp_path: Path) -> None:
    files = DataFiles(tmp_path)
    set_uid_range(tmp_path, UidRange(300_000, 300_001))
    given = []
    for _ in range(2):
        with uid_allocation(files) as uid:
            given.append(uid)
    assert given == [300_000, 300_001]
    with uid_allocation(files) as uid:
        assert uid == 300_000, "behind the last comes the first that is free"
