"""Copies on a real node when answers are lost, files go away, the bus restarts or there is much to carry."""

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from contracts import subjects
from contracts.errors import Invalid, SandboxCopyFailed
from contracts.files import FileRequest
from contracts.transfers import (
    Download,
    DownloadBegun,
    DownloadEntries,
    DownloadPieces,
    TransferDone,
    Upload,
    UploadEnd,
    UploadPiece,
    UploadPieces,
    UploadState,
)
from infra.client import Cloche, Sandbox, copying
from infra.client.asking import ask
from infra.client.copying import download
from infra.client.local_tree import bundles
from infra.files.downloading import begin_download, give_entries, give_pieces
from infra.files.transfers import ENDED, STATE, Transfer, encoded
from infra.files.workspace import Workspace
from tests.files.test_client import calls, pattern, tree_of
from tests.files.workspaces import Ground
from tests.services.node import Node, eventually, node_in

pytestmark = pytest.mark.asyncio(loop_scope="module")

LARGE = 200 << 20
MAY_GROW_KB = 120 << 10


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[Node, Cloche]]:
    async with node_in(tmp_path_factory.mktemp("node")) as (node, cloche):
        yield node, cloche


async def asked(cloche: Cloche, sandbox: Sandbox, verb: str, request: FileRequest, kind: type[Any]) -> Any:
    return await ask(cloche.bus, subjects.rpc("files", "local", sandbox.id, verb), request, kind, timeout=20)


async def test_an_end_whose_answer_was_lost_is_answered_again(running: tuple[Node, Cloche]) -> None:
    _, cloche = running
    sandbox = await cloche.create()
    await asked(cloche, sandbox, "upload", Upload(path="a", transfer="t"), UploadState)
    pieces = UploadPieces(transfer="t", number=0, pieces=(UploadPiece(size=3, data=b"abc"),))
    await asked(cloche, sandbox, "upload_pieces", pieces, UploadState)
    once = await asked(cloche, sandbox, "upload_end", UploadEnd(transfer="t"), TransferDone)
    again = await asked(cloche, sandbox, "upload_end", UploadEnd(transfer="t"), TransferDone)
    assert once == again == TransferDone(path="/workspace/a", files=1, bytes=3)
    assert len(await calls(sandbox)) == 1
    await sandbox.remove()


async def test_a_transfer_ends_as_it_was_ending_when_the_service_was_killed(running: tuple[Node, Cloche]) -> None:
    node, cloche = running
    sandbox = await cloche.create()
    pieces = UploadPieces(transfer="t", number=0, pieces=(UploadPiece(size=3, data=b"abc"),))
    for _ in range(2):
        await asked(cloche, sandbox, "upload", Upload(path="a", transfer="t"), UploadState)
        await asked(cloche, sandbox, "upload_pieces", pieces, UploadState)
        state = node.data / f"transfers/{sandbox.id}.t/{STATE}"
        ending = msgspec.json.decode(state.read_bytes(), type=Transfer)
        state.write_bytes(msgspec.json.encode(msgspec.structs.replace(ending, is_over=True)))
        with pytest.raises(Invalid, match="there is no transfer"):
            await asked(cloche, sandbox, "upload_pieces", pieces, UploadState)
        done = await asked(cloche, sandbox, "upload_end", UploadEnd(transfer="t"), TransferDone)
        assert (done.files, done.bytes) == (1, 3)
    assert [returned.failure for _, returned in await calls(sandbox)] == [None, None]
    await sandbox.remove()


async def test_the_log_has_no_path_of_the_askers_machine(running: tuple[Node, Cloche], tmp_path: Path) -> None:
    _, cloche = running
    sandbox = await cloche.create()
    await sandbox.files.write("a", "x")
    (tmp_path / "there/a").mkdir(parents=True)
    with pytest.raises(SandboxCopyFailed):
        await sandbox.files.put(tmp_path / "missing", "b")
    with pytest.raises(Invalid):
        await sandbox.files.get("a", tmp_path / "there/a")
    failures = [returned.failure for _, returned in (await calls(sandbox))[1:]]
    assert [failure is not None and failure.code for failure in failures] == ["SANDBOX_COPY_FAILED", "INVALID"]
    assert str(tmp_path) not in str(failures)
    await sandbox.remove()


async def test_a_transfer_that_cannot_be_begun_is_answered_and_ended(running: tuple[Node, Cloche]) -> None:
    node, cloche = running
    sandbox = await cloche.create()
    (node.data / f"transfers/{sandbox.id}.t{ENDED}").mkdir(parents=True)
    with pytest.raises(Invalid) as refused:
        await asked(cloche, sandbox, "upload", Upload(path="a", transfer="t"), UploadState)
    assert str(node.data) not in refused.value.message
    assert len(await calls(sandbox)) == 1
    await sandbox.remove()


async def test_a_download_outlives_the_bus(running: tuple[Node, Cloche], tmp_path: Path) -> None:
    node, cloche = running
    sandbox = await cloche.create()
    (tmp_path / "large").write_bytes(pattern(40_000_000))
    await sandbox.files.put(tmp_path / "large", "large")
    copying = asyncio.create_task(sandbox.files.get("large", tmp_path / "back"))
    await eventually(lambda: any(tmp_path.glob(".cloche-new-*")))
    assert not copying.done()
    node.kill_server()
    done = await copying
    assert (done.files, done.bytes) == (1, 40_000_000)
    assert (tmp_path / "back").read_bytes() == (tmp_path / "large").read_bytes()
    await sandbox.remove()


def most_memory_kb(pid: int | str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


async def test_memory_stays_flat_however_much_is_copied(running: tuple[Node, Cloche], tmp_path: Path) -> None:
    node, cloche = running
    sandbox = await cloche.create()
    with (tmp_path / "large").open("wb") as file:
        file.truncate(LARGE)
    await sandbox.files.put(Path(__file__), "small")
    pids: tuple[int | str, ...] = ("self", node.services["executor"].pid)
    before = [most_memory_kb(pid) for pid in pids]
    await sandbox.files.put(tmp_path / "large", "large")
    await sandbox.files.get("large", tmp_path / "back")
    assert (tmp_path / "back").stat().st_size == LARGE
    grown = [most_memory_kb(pid) - kb for pid, kb in zip(pids, before, strict=True)]
    assert max(grown) < MAY_GROW_KB, grown
    await sandbox.remove()


class Tree:
    """One that takes several messages, each of which ends within a file."""

    def __init__(self, top: Path) -> None:
        self.top = top
        top.mkdir()
        for number in range(1, 5):
            (top / f"{number}").write_bytes(bytes([number]) * 400_000)

    def unchanged(self) -> None:
        """And so the transfer goes on."""

    def with_one_more_in_front(self) -> None:
        (self.top / "5").write_bytes(b"new" * 200_000)

    def with_one_less(self) -> None:
        (self.top / "4").unlink()

    def with_much_less(self) -> None:
        for number in range(1, 4):
            (self.top / f"{number}").unlink()

    def with_another_content_of_the_same_size_and_time(self) -> None:
        file = self.top / "4"
        times = file.stat()
        file.write_bytes(b"x" * 400_000)
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))

    def with_another_mode(self) -> None:
        (self.top / "4").chmod(0o755)


async def test_an_upload_that_is_taken_up_again_leaves_out_nothing_that_changed(
    running: tuple[Node, Cloche], tmp_path: Path
) -> None:
    _, cloche = running
    sandbox = await cloche.create()
    changes = [name for name in vars(Tree) if not name.startswith("_")]
    for name in changes:
        tree = Tree(tmp_path / name)
        packed = list(bundles(tree.top))
        await asked(cloche, sandbox, "upload", Upload(path=name, transfer="t"), UploadState)
        for number, pieces in enumerate(packed[:3]):
            request = UploadPieces(transfer="t", number=number, pieces=pieces)
            await asked(cloche, sandbox, "upload_pieces", request, UploadState)
        getattr(tree, name)()
        await sandbox.files.put(tree.top, name, transfer="t")
        await sandbox.files.get(name, tmp_path / f"{name}-back")
        came, wanted = tree_of(tmp_path / f"{name}-back"), tree_of(tree.top)
        assert {path: came.get(path) for path in wanted} == wanted, name
    ends = [returned.failure for invoked, returned in await calls(sandbox) if invoked.tool == "upload"]
    assert [failure and failure.code for failure in ends] == [None, *["CONFLICT", None] * (len(changes) - 1)]
    await sandbox.remove()


async def test_an_upload_does_not_go_on_in_another_life_of_the_sandbox(
    running: tuple[Node, Cloche], tmp_path: Path
) -> None:
    _, cloche = running
    sandbox = await cloche.create()
    before = (await sandbox.flush()).sequence
    tree = Tree(tmp_path / "tree")
    request = UploadPieces(transfer="t", number=0, pieces=next(bundles(tree.top)))
    await asked(cloche, sandbox, "upload", Upload(path="tree", transfer="t"), UploadState)
    await asked(cloche, sandbox, "upload_pieces", request, UploadState)
    await sandbox.recover(at=before)
    with pytest.raises(Invalid, match="there is no transfer"):
        await asked(cloche, sandbox, "upload_pieces", request, UploadState)
    assert (await sandbox.files.put(tree.top, "tree", transfer="t")).files == 4
    await sandbox.files.get("tree", tmp_path / "back")
    assert tree_of(tmp_path / "back") == tree_of(tree.top)
    ends = [returned.failure for invoked, returned in await calls(sandbox) if invoked.tool == "upload"]
    assert [failure and failure.code for failure in ends] == ["CONFLICT", None]
    await sandbox.remove()


class Serving:
    """Downloads of a workspace that is changed between two requests."""

    def __init__(self, ground: Ground, workspace: Workspace) -> None:
        self._ground = ground
        self._workspace = workspace
        self._changes = 0

    async def __call__(self, verb: str, request: FileRequest, kind: type[Any], timeout: float) -> Any:
        transfer = Transfer(
            kind="download", sandbox="sb", transfer="t", call="c", asked_by=None, path=encoded((b"top",)), begun_ns=0
        )
        match request:
            case Download():
                begun: DownloadBegun = begin_download(self._workspace, transfer)
                return begun
            case DownloadEntries():
                page = give_entries(self._workspace, request, transfer)
                (self._ground.workspace / "top/gone").unlink(missing_ok=True)
                return page
            case DownloadPieces():
                given = give_pieces(self._workspace, request, transfer).page
                self._change()
                return given
        return TransferDone(path="", files=0, bytes=0)

    def _change(self) -> None:
        self._changes += 1
        if self._changes <= 3:
            (self._ground.workspace / "top/growing").write_bytes(pattern(2_000_000 + self._changes))
            self._ground.give()


@pytest.mark.parametrize("most_links", [copying.MOST_LINKS, 0])
async def test_files_that_go_away_or_change_do_not_end_a_tree(
    tmp_path: Path, most_links: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However few links are kept for the end."""
    monkeypatch.setattr(copying, "MOST_LINKS", most_links)
    ground = Ground(tmp_path)
    (ground.workspace / "top").mkdir()
    for name in ("a", "gone", "z"):
        (ground.workspace / "top" / name).write_text(name)
    (ground.workspace / "top/growing").write_bytes(pattern(2_000_000))
    (ground.workspace / "top/link").symlink_to("a")
    ground.give()
    with ground.open() as workspace:
        await download(Serving(ground, workspace), "top", tmp_path / "back", None)
    assert sorted(path.name for path in (tmp_path / "back").iterdir()) == ["a", "growing", "link", "z"]
    assert (tmp_path / "back/link").readlink() == Path("a")
    came = (tmp_path / "back/growing").read_bytes()
    assert hashlib.sha256(came).digest() == hashlib.sha256(pattern(2_000_003)).digest()
