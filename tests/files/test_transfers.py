"""Transfers as they lie on disk and as they are packed: bounded, ended once, and told again when asked."""

import os
from pathlib import Path

import msgspec
import pytest

from contracts.errors import Conflict, Failure, Invalid
from contracts.transfers import DownloadPieces, WantedPiece
from infra.client.local_tree import bundles
from infra.files import transfers as transfers_module
from infra.files.downloading import give_pieces
from infra.files.transfers import MAX_OPEN, Transfer, Transfers, encoded
from services.executor.copies import MAX_MESSAGE, recorded
from tests.files.workspaces import Ground


def a_transfer(transfer: str = "t", sandbox: str = "sb", path: tuple[bytes, ...] = ()) -> Transfer:
    return Transfer(
        kind="download",
        sandbox=sandbox,
        transfer=transfer,
        call="c-1",
        asked_by=None,
        path=encoded(path),
        begun_ns=0,
    )


def test_what_has_ended_is_known_until_it_is_forgotten(tmp_path: Path) -> None:
    transfers = Transfers(tmp_path / "transfers")
    begun = transfers.begin(a_transfer("ended"))
    transfers.end(msgspec.structs.replace(begun, files=3))
    assert transfers.ended("sb", "ended").files == 3
    with pytest.raises(Invalid):
        transfers.load("sb", "ended")
    assert transfers.abandoned(3600) == []
    assert transfers.ended("sb", "ended").files == 3
    assert transfers.abandoned(-1) == []
    assert not list((tmp_path / "transfers").iterdir())


def test_an_id_can_be_used_again_after_its_end(tmp_path: Path) -> None:
    transfers = Transfers(tmp_path / "transfers")
    transfers.end(transfers.begin(a_transfer()))
    transfers.begin(a_transfer())
    assert transfers.load("sb", "t") == a_transfer()
    with pytest.raises(Invalid):
        transfers.ended("sb", "t")


def test_a_directory_that_a_crash_left_without_state_is_swept(tmp_path: Path) -> None:
    transfers = Transfers(tmp_path / "transfers")
    (tmp_path / "transfers/sb.half").mkdir(parents=True)
    assert transfers.abandoned(3600) == []
    assert (tmp_path / "transfers/sb.half").is_dir()
    assert transfers.abandoned(-1) == []
    assert not (tmp_path / "transfers/sb.half").exists()


def test_a_sandbox_has_only_so_many_open(tmp_path: Path) -> None:
    transfers = Transfers(tmp_path / "transfers")
    for number in range(MAX_OPEN):
        transfers.begin(a_transfer(f"t{number}"))
    with pytest.raises(Conflict):
        transfers.begin(a_transfer("more"))
    transfers.begin(a_transfer("t0"))
    transfers.begin(a_transfer("more", sandbox="sb2"))
    transfers.end(a_transfer("t0"))
    transfers.begin(a_transfer("more"))


def test_a_state_that_cannot_be_read_now_is_not_taken_for_none(tmp_path: Path) -> None:
    transfers = Transfers(tmp_path / "transfers")
    (tmp_path / "transfers/sb.t" / transfers_module.STATE).mkdir(parents=True)
    with pytest.raises(OSError, match="directory"):
        transfers.load("sb", "t")


def test_pieces_that_are_asked_for_again_count_once(tmp_path: Path) -> None:
    ground = Ground(tmp_path)
    (ground.workspace / "a").write_bytes(b"abc")
    ground.give()
    request = DownloadPieces(transfer="t", wanted=(WantedPiece(path="a"),))
    with ground.open() as workspace:
        once = give_pieces(workspace, request, a_transfer()).transfer
        again = give_pieces(workspace, request, once).transfer
    assert (once.files, once.bytes) == (again.files, again.bytes) == (1, 3)


def test_what_an_asker_says_of_its_failure_is_kept_in_bounds() -> None:
    said = Failure(code="MADE_UP", message="x" * 100_000, details={"path": "/home/me"})
    kept = recorded(said)
    assert (kept.code, len(kept.message), kept.details) == ("SANDBOX_COPY_FAILED", MAX_MESSAGE, {})
    assert recorded(Failure(code="INVALID", message="m")).code == "INVALID"


@pytest.mark.parametrize("path", ["pipe", "/dev/zero"])
def test_only_files_and_trees_are_packed(tmp_path: Path, path: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="neither a file nor a directory"):
        list(bundles(tmp_path / path))


def test_a_file_that_changes_while_it_is_packed_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(2_000_000))
    packing = bundles(tmp_path / "file")
    next(packing)
    os.utime(tmp_path / "file", ns=(1, 1))
    with pytest.raises(OSError, match="changed while it was read"):
        list(packing)


def test_pipes_within_a_tree_are_left_out(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_text("x")
    assert [piece.path for bundle in bundles(tmp_path) for piece in bundle] == ["", "file"]


def test_links_to_long_paths_fill_a_message_too(tmp_path: Path) -> None:
    for number in range(400):
        (tmp_path / f"{number}").symlink_to("x/" * 2000)
    assert all(len(msgspec.json.encode(bundle)) < 1_000_000 for bundle in bundles(tmp_path))
