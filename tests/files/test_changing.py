"""Writing, moving, removing, uploading: what is there afterwards, and what permissions leave alone."""

import errno
import os
import stat
from pathlib import Path

import msgspec
import pytest

from contracts.errors import (
    ClocheError,
    Conflict,
    Invalid,
    SandboxFileNotFound,
    SandboxFileTooLarge,
    SandboxPathDenied,
    SandboxWriteFailed,
)
from contracts.files import MakeDirectory, MoveFile, RemoveFile, WriteFile
from contracts.spec import Permissions
from contracts.transfers import UploadPiece, UploadPieces
from infra.files.beneath import Way
from infra.files.changing import make_directory, move_file, remove_file
from infra.files.transfers import Transfer, Transfers, encoded
from infra.files.uploading import take_pieces
from infra.files.workspace import PREFIX, Workspace
from infra.files.writing import write_file
from tests.files.verbs import VERBS
from tests.files.workspaces import Ground

GIGABYTE = 1 << 30


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground(tmp_path)


def write(ground: Ground, workspace: Workspace, path: str, content: str = "x", **options: object) -> None:
    write_file(workspace, ground.staging, msgspec.convert({"path": path, "content": content, **options}, WriteFile))


def owners(top: Path) -> set[int]:
    return {path.lstat().st_uid for path in [top, *top.rglob("*")]}


def test_what_we_make_is_the_sandboxs_with_sane_modes(ground: Ground) -> None:
    with ground.open() as workspace:
        write(ground, workspace, "a/b/c")
        write(ground, workspace, "run", mode=0o755)
        make_directory(workspace, MakeDirectory(path="d/e", mode=0o700))
    assert len(owners(ground.workspace)) == 1
    modes = {path: stat.S_IMODE((ground.workspace / path).stat().st_mode) for path in ("a", "a/b/c", "run", "d/e")}
    assert modes == {"a": 0o755, "a/b/c": 0o644, "run": 0o755, "d/e": 0o700}


def test_a_file_that_is_replaced_keeps_its_mode_and_loses_its_special_bits(ground: Ground) -> None:
    with ground.open() as workspace:
        write(ground, workspace, "run", mode=0o755)
        (ground.workspace / "run").chmod(0o4755)
        write(ground, workspace, "run", "y")
    assert stat.S_IMODE((ground.workspace / "run").stat().st_mode) == 0o755


def test_whoever_has_a_file_open_keeps_what_he_opened(ground: Ground) -> None:
    with ground.open() as workspace:
        write(ground, workspace, "file", "before")
        with (ground.workspace / "file").open() as opened:
            write(ground, workspace, "file", "after")
            assert opened.read() == "before"
    assert (ground.workspace / "file").read_text() == "after"


def test_a_hard_link_inside_is_neither_appended_to_nor_written_through(ground: Ground) -> None:
    with ground.open() as workspace:
        write(ground, workspace, "one", "1")
        os.link(ground.workspace / "one", ground.workspace / "two")
        with pytest.raises(SandboxPathDenied):
            write(ground, workspace, "two", "2", append=True)
        write(ground, workspace, "two", "2")
    assert (ground.workspace / "one").read_text() == "1"


def test_a_move_replaces_only_when_told(ground: Ground) -> None:
    with ground.open() as workspace:
        write(ground, workspace, "a", "a")
        write(ground, workspace, "b", "b")
        with pytest.raises(Invalid):
            move_file(workspace, MoveFile(path="a", to="b"))
        move_file(workspace, MoveFile(path="a", to="b", overwrite=True))
        with pytest.raises(SandboxFileNotFound):
            move_file(workspace, MoveFile(path="a", to="made/for/nothing"))
        with pytest.raises(Invalid):
            move_file(workspace, MoveFile(path=".", to="b"))
        make_directory(workspace, MakeDirectory(path="d"))
        with pytest.raises(Invalid):
            move_file(workspace, MoveFile(path="d", to="d/e"))
    assert {path.name for path in ground.workspace.iterdir()} == {"b", "d"}
    assert (ground.workspace / "b").read_text() == "a"


def test_a_directory_goes_only_empty_or_with_everything(ground: Ground) -> None:
    with ground.open() as workspace:
        write(ground, workspace, "d/a/b")
        (ground.workspace / "d/link").symlink_to(ground.outside)
        before = ground.fingerprint()
        with pytest.raises(Invalid):
            remove_file(workspace, RemoveFile(path="d"))
        assert remove_file(workspace, RemoveFile(path="d", recursive=True)).entries == 4
        with pytest.raises(Invalid):
            remove_file(workspace, RemoveFile(path=".", recursive=True))
    assert ground.fingerprint() == before
    assert not list(ground.workspace.iterdir())


def test_a_tree_of_any_depth_is_removed(ground: Ground) -> None:
    top = os.open(ground.workspace, os.O_RDONLY)
    here = top
    for _ in range(1200):
        os.mkdir("deep", dir_fd=here)
        below = os.open("deep", os.O_RDONLY, dir_fd=here)
        if here != top:
            os.close(here)
        here = below
    os.close(here)
    os.close(top)
    with ground.open() as workspace:
        assert remove_file(workspace, RemoveFile(path="deep", recursive=True)).entries == 1200
    assert not list(ground.workspace.iterdir())


@pytest.mark.parametrize("way", Way)
def test_permissions_hold_for_what_a_path_really_is(ground: Ground, way: Way) -> None:
    for directory in ("src", "docs", "secret"):
        (ground.workspace / directory).mkdir()
        (ground.workspace / directory / "file").write_text("secret")
    (ground.workspace / "src/link").symlink_to("../secret")
    (ground.workspace / "src/one").symlink_to("../secret/file")
    (ground.workspace / "secret/back").symlink_to("../src")
    ground.give()
    permissions = Permissions(read=("src", "./docs/"), write=("src/",))
    reading = {"read", "list", "glob", "grep", "stat", "download", "download_piece"}

    def allowed(verb: str, path: str) -> bool:
        try:
            with ground.open(way, permissions) as workspace:
                VERBS[verb](ground, workspace, path, None)
        except SandboxPathDenied:
            return False
        except ClocheError:
            return True
        return True

    before = {
        path: path.read_bytes() for path in ground.workspace.rglob("*") if path.is_file() and "src" not in path.parts
    }
    for verb in VERBS:
        for path in ("secret/file", "src/link/file", "secret", ".", "src/link", "secret/new/x"):
            if verb in ("remove", "move_from") and path == "src/link":
                continue
            if path == "." and verb not in reading:
                continue
            assert not allowed(verb, path), (verb, path)
        assert allowed(verb, "docs/file") == (verb in reading), verb
    assert {path: path.read_bytes() for path in before} == before
    for verb in ("read", "list", "stat", "write", "mkdir", "append", "edit", "upload"):
        assert allowed(verb, "src/file"), verb
        assert allowed(verb, "secret/back/file"), verb
    assert allowed("write", "src/new/deep/file")
    assert not allowed("remove", "src")


def test_no_directories_permit_nothing(ground: Ground) -> None:
    (ground.workspace / "file").write_text("x")
    ground.give()
    with ground.open(permissions=Permissions(read=(), write=("../outside",))) as workspace:
        for verb, act in VERBS.items():
            with pytest.raises(SandboxPathDenied):
                act(ground, workspace, "file", None)
            assert verb


class Uploading:
    def __init__(self, ground: Ground, path: bytes = b"top") -> None:
        self.ground = ground
        self.transfers = Transfers(ground.host / "transfers")
        self.transfer = self.transfers.begin(
            Transfer(
                kind="upload",
                sandbox="sb",
                transfer="up",
                call="t-1",
                asked_by=None,
                path=encoded((path,)),
                begun_ns=0,
            )
        )

    def take(self, number: int, *pieces: UploadPiece, most: int = GIGABYTE) -> None:
        request = UploadPieces(transfer="up", number=number, pieces=pieces)
        with self.ground.open() as workspace:
            self.transfer = take_pieces(workspace, self.transfers, request, self.transfer, most)


def test_a_file_appears_when_it_is_whole(ground: Ground) -> None:
    uploading = Uploading(ground)
    uploading.take(0, UploadPiece(size=6, offset=0, data=b"abc", mode=0o751, mtime_us=1_000_000))
    assert not list(ground.workspace.iterdir())
    uploading.take(1, UploadPiece(size=6, offset=3, data=b"def", mode=0o751, mtime_us=1_000_000))
    made = ground.workspace / "top"
    assert (made.read_bytes(), made.stat().st_mode & 0o777, made.stat().st_mtime) == (b"abcdef", 0o751, 1.0)
    assert len(owners(ground.workspace)) == 1


def test_pieces_come_once_and_in_order(ground: Ground) -> None:
    uploading = Uploading(ground)
    first = UploadPiece(size=6, offset=0, data=b"abc")
    uploading.take(0, first)
    uploading.take(0, first)
    with pytest.raises(Conflict):
        uploading.take(2, UploadPiece(size=6, offset=3, data=b"def"))
    uploading.take(1, UploadPiece(size=6, offset=3, data=b"def"))
    assert uploading.transfer.bytes == 6
    assert (ground.workspace / "top").read_bytes() == b"abcdef"


@pytest.mark.parametrize("noted", [True, False])
def test_pieces_that_a_crash_cut_short_are_taken_again(ground: Ground, noted: bool) -> None:
    """The second message was carried out, and only noted if the crash came later."""
    uploading = Uploading(ground)
    uploading.take(0, UploadPiece(path="a", size=6, offset=0, data=b"abc"))
    before = uploading.transfer
    pieces = (
        UploadPiece(path="a", size=6, offset=3, data=b"def"),
        UploadPiece(path="b", size=1, data=b"b"),
        UploadPiece(path="c", size=4, data=b"cc"),
    )
    uploading.take(1, *pieces)
    if not noted:
        uploading.transfers.save(before)
    uploading.transfer = uploading.transfers.load("sb", "up")
    uploading.take(1, *pieces)
    uploading.take(2, UploadPiece(path="c", size=4, offset=2, data=b"CC"))
    contents = {path.name: path.read_bytes() for path in (ground.workspace / "top").iterdir()}
    assert contents == {"a": b"abcdef", "b": b"b", "c": b"ccCC"}


def test_a_last_piece_that_was_not_noted_leaves_nothing_open(ground: Ground) -> None:
    uploading = Uploading(ground)
    uploading.take(0, UploadPiece(size=6, offset=0, data=b"abc"))
    before = uploading.transfer
    uploading.take(1, UploadPiece(size=6, offset=3, data=b"def"))
    uploading.transfers.save(before)
    uploading.transfer = before
    uploading.take(1, UploadPiece(size=6, offset=3, data=b"def"))
    assert (uploading.transfer.part, uploading.transfer.files, uploading.transfer.bytes) == (None, 1, 6)
    assert not list((ground.host / "transfers").glob("*/part-*"))


@pytest.mark.parametrize("changed", [{"size": 7}, {"mtime_us": 2}])
def test_two_contents_are_never_mixed(ground: Ground, changed: dict[str, int]) -> None:
    uploading = Uploading(ground)
    uploading.take(0, UploadPiece(size=6, offset=0, data=b"abc", mtime_us=1))
    piece = UploadPiece(**{"size": 6, "offset": 3, "data": b"DEF", "mtime_us": 1, **changed})  # type: ignore[arg-type]
    with pytest.raises(Conflict):
        uploading.take(1, piece)
    uploading.take(1, UploadPiece(size=6, offset=0, data=b"ABCDEF", mtime_us=2))
    assert (ground.workspace / "top").read_bytes() == b"ABCDEF"


def test_closed_directories_within_a_tree_are_removed(ground: Ground) -> None:
    for path in ("tree/a/b", "tree/a/c/d"):
        (ground.workspace / path).mkdir(parents=True)
    for path in ("tree/a/c/d", "tree/a/c", "tree/a/b", "tree/a"):
        (ground.workspace / path).chmod(0o555)
    ground.give()
    with ground.open() as workspace:
        assert remove_file(workspace, RemoveFile(path="tree", recursive=True)).entries == 5
    assert not list(ground.workspace.iterdir())


@pytest.mark.parametrize("verb", ["read", "list", "stat", "edit", "remove", "download"])
def test_permissions_do_not_tell_files_from_what_is_missing(ground: Ground, verb: str) -> None:
    (ground.workspace / "hidden").write_text("x")
    permissions = Permissions(read=("src",), write=("src",))
    for path in ("hidden/x", "missing/x"):
        with ground.open(permissions=permissions) as workspace, pytest.raises(SandboxPathDenied):
            VERBS[verb](ground, workspace, path, None)


@pytest.mark.parametrize(
    ("piece", "refusal"),
    [
        (UploadPiece(path="../x", size=1, data=b"x"), Invalid),
        (UploadPiece(path="/etc/x", size=1, data=b"x"), Invalid),
        (UploadPiece(path="a//b", size=1, data=b"x"), Invalid),
        (UploadPiece(size=1, data=b"xx"), Invalid),
        (UploadPiece(size=9, offset=4, data=b"x"), Invalid),
        (UploadPiece(size=9, data=b""), Invalid),
        (UploadPiece(path="a", size=2 * GIGABYTE, data=b"x"), SandboxFileTooLarge),
    ],
)
def test_a_piece_that_makes_no_sense_is_refused(ground: Ground, piece: UploadPiece, refusal: type[ClocheError]) -> None:
    with pytest.raises(refusal):
        Uploading(ground).take(0, piece)
    assert not [path for path in ground.workspace.rglob("*") if path.is_file()]


def test_a_directory_that_is_not_the_sandboxs_yet_has_no_name(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() != 0:
        pytest.skip("whoever is not root has nothing to give")

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, "")

    for call in ("chown", "chmod", "fchown", "fchmod"):
        monkeypatch.setattr(os, call, fail)
    with ground.open() as workspace, pytest.raises(SandboxWriteFailed):
        make_directory(workspace, MakeDirectory(path="d/e"))
    assert not list(ground.workspace.iterdir())
    assert not os.listdir(ground.staging.directory)


def test_what_a_crash_left_in_the_staging_directory_is_removed(ground: Ground) -> None:
    with ground.open() as workspace, workspace.parent(workspace.names("x")) as target:
        making = ground.staging.new_file(target)
        making.__enter__()
        (ground.staging.directory / f"{PREFIX.decode()}directory").mkdir()
        assert os.listdir(ground.staging.directory)
        ground.staging.prepare()
        assert not os.listdir(ground.staging.directory)
        making.__exit__(None, None, None)
