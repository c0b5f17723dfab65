"""Answers requests about files. The work is done on the host, beneath the workspace, in threads."""

import asyncio
import logging
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, Self

import msgspec
from msgspec import Struct

from contracts import codec, files, subjects, transfers
from contracts.errors import ClocheError, Invalid, SandboxCopyFailed
from contracts.files import FileRequest, RemoveFile
from contracts.queries import Reply
from infra.bus import desk
from infra.files.changing import make_directory, move_file, remove_file
from infra.files.editing import edit_file
from infra.files.entries import glob_files, list_files, stat_file
from infra.files.reading import read_file
from infra.files.searching import grep_files
from infra.files.staging import Staging
from infra.files.transfers import Transfers
from infra.files.trouble import translated
from infra.files.turns import Turns
from infra.files.writing import write_file
from services.executor.copies import Copies
from services.executor.places import Places, WorkspacePlace
from services.executor.tool_calls import ToolCalls

logger = logging.getLogger(__name__)

THREADS = 16
LONG = 4
"""Searches, walks and removals of trees at a time: short requests always find a thread."""
LONG_OF_ONE = 2
WAITING = 192
WAITING_OF_ONE = 48
"""Both fewer than the requests that are taken at a time: searches that wait keep out neither others nor short ones."""
PATIENCE_S = 100.0
"""Whoever asked has gone by then."""
LONG_VERBS = frozenset({"list", "glob", "grep"})
REQUESTS: dict[str, type[FileRequest]] = {**files.REQUESTS, **transfers.REQUESTS}
READING: dict[str, Callable[..., Struct]] = {
    "read": read_file,
    "list": list_files,
    "glob": glob_files,
    "grep": grep_files,
    "stat": stat_file,
}
CHANGING: dict[str, Callable[..., Struct]] = {
    "mkdir": make_directory,
    "remove": remove_file,
    "move": move_file,
}
WRITING: dict[str, Callable[..., Struct]] = {"write": write_file, "edit": edit_file}
"""These also need a place for a new file that is not whole yet."""


class FileTools:
    """Open it before it answers: `async with FileTools(...) as tools`."""

    def __init__(self, *, data: Path, places: Places, calls: ToolCalls) -> None:
        self._places = places
        self._calls = calls
        self._staging = Staging(data / "staging")
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="files")
        self._long = Turns(
            together=LONG,
            each=LONG_OF_ONE,
            waiting=WAITING,
            waiting_each=WAITING_OF_ONE,
            patience_s=PATIENCE_S,
        )
        self._locks: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()
        self.copies = Copies(
            Transfers(data / "transfers"),
            self._staging,
            calls,
            self._in_thread,
            walking=self._long.turn,
            changing=self._lock,
        )

    async def __aenter__(self) -> Self:
        await self._in_thread(self._staging.prepare)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """What is under way in a thread ends by itself."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def answer(self, subject: str, raw: bytes) -> bytes:
        """Never raises for a bad request: the failure is the answer."""
        try:
            address = subjects.parse_rpc("files", subject)
            if address.verb not in REQUESTS:
                raise Invalid(f"unknown request {address.verb!r}: one of {', '.join(REQUESTS)}")
            request = codec.decode(raw or b"{}", REQUESTS[address.verb])
            result = await self._obey(address.sandbox, address.verb, request)
            return codec.encode(Reply(result=msgspec.Raw(codec.encode(result))))
        except ClocheError as error:
            return desk.failed(error)

    async def _obey(self, sandbox: str, verb: str, request: FileRequest) -> Struct:
        place = await self._places.of(sandbox)
        if verb in transfers.REQUESTS:
            return await self.copies.obey(sandbox, place, request)
        work = partial(self._work, sandbox, place, verb, request)
        return await self._calls.record(sandbox, verb, request, work, changes=verb not in READING)

    async def _work(self, sandbox: str, place: WorkspacePlace, verb: str, request: FileRequest) -> Struct:
        async with self._turn(sandbox, verb, request):
            answer: Struct = await self._in_thread(self._do, place, verb, request)
            return answer

    def _turn(self, sandbox: str, verb: str, request: FileRequest) -> AbstractAsyncContextManager[Any]:
        if _is_long(verb, request):
            return self._long.turn(sandbox)
        return nullcontext() if verb in READING else self._lock(sandbox)

    def _lock(self, sandbox: str) -> asyncio.Lock:
        """An edit builds on what is there: nothing of ours comes between its look and its change."""
        return self._locks.setdefault(sandbox, asyncio.Lock())

    def _do(self, place: WorkspacePlace, verb: str, request: FileRequest) -> Struct:
        with translated(place.inside, SandboxCopyFailed), place.open(self._staging.directory) as workspace:
            if verb in WRITING:
                return WRITING[verb](workspace, self._staging, request)
            return (READING | CHANGING)[verb](workspace, request)

    async def _in_thread(self, work: Callable[..., Any], *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._pool, partial(work, *arguments))


def _is_long(verb: str, request: FileRequest) -> bool:
    return verb in LONG_VERBS or (isinstance(request, RemoveFile) and request.recursive)
