"""Copies on a real node when answers are lost, files go away, the bus restarts or there is much to carry."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

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
from infra.client import Cloche, Sandbox
from infra.client.asking import ask
from infra.client.copying import download
from infra.files.downloading import begin_download, give_entries, give_pieces
from infra.files.transfers import ENDED, Transfer, encoded
from infra.files.workspace import Workspace
from tests.files.test_client import calls, pattern
from tests.files.workspaces import Ground
from tests.services.node import Node, eventually, node_in

pytestmark = pytest.mark.asyncio(loop_scope="module")

LARGE = 200 << 20
MAY_GROW_KB = 80 << 10


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


async def test_files_that_go_away_or_change_do_not_end_a_tree(tmp_path: Path) -> None:
    ground = Ground(tmp_path)
    (ground.workspace / "top").mkdir()
    for name in ("a", "gone", "z"):
        (ground.workspace / "top" / name).write_text(name)
    (ground.workspace / "top/growing").write_bytes(pattern(2_000_000))
    ground.give()
    with ground.open() as workspace:
        await download(Serving(ground, workspace), "top", tmp_path / "back", None)
    assert sorted(path.name for path in (tmp_path / "back").iterdir()) == ["a", "growing", "z"]
    came = (tmp_path / "back/growing").read_bytes()
    assert hashlib.sha256(came).digest() == hashlib.sha256(pattern(2_000_003)).digest()
