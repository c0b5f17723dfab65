"""No two local sandboxes share a user of the host."""

import os
from pathlib import Path

import pytest

from contracts.ids import SandboxId
from contracts.spec import Isolation, SandboxSpec
from infra.sandbox.local.blanks import make_blank, new_blank
from infra.sandbox.local.layout import DataFiles, SandboxFiles
from infra.sandbox.local.uids import uid_allocation


class Taken(DataFiles):
    """One whose only blank becomes a sandbox right after the sandboxes were listed."""

    def ids(self) -> tuple[SandboxId, ...]:
        found = super().ids()
        for blank in self.blanks.glob("*"):
            blank.rename(self.of("sb-1").root)
        return found


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives sandboxes users of their own")
def test_a_blank_that_is_taken_meanwhile_keeps_its_user_to_itself(tmp_path: Path) -> None:
    spec = SandboxSpec(isolation=Isolation.LOCAL)
    files: SandboxFiles = new_blank(spec, DataFiles(tmp_path))
    record = make_blank(spec, DataFiles(tmp_path), files)
    with uid_allocation(Taken(tmp_path)) as uid:
        assert uid is not None
        assert uid != record.host_uid
