"""The keeper as the executor sees it."""

import asyncio
import contextlib
import itertools
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import msgspec

from contracts.errors import Unavailable, from_failure
from infra.keeper import protocol
from infra.keeper.layout import Layout
from infra.target import Target
from infra.unix_socket import short_address

T = TypeVar("T")
_replies = msgspec.msgpack.Decoder(protocol.Reply)


class KeeperClient:
    """Every method raises `Unavailable` when the keeper is gone, for requests under way too; then connect again.

    Requests may overlap. Nothing in the keeper depends on this connection.
    """

    def __init__(self, layout: Layout, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._layout = layout
        self._reader = reader
        self._writer = writer
        self._ids = itertools.count(1)
        self._pending: dict[int, asyncio.Future[protocol.Reply]] = {}
        self._gone = False
        self._listening = asyncio.create_task(self._listen())

    @classmethod
    async def connect(cls, data_dir: Path) -> Self:
        """Raises `Unavailable` where no keeper answers for this data directory."""
        layout = Layout.of(data_dir)
        sock = socket.socket(socket.AF_UNIX)
        try:
            with short_address(layout.socket) as address:
                sock.connect(address)
            sock.setblocking(False)
            reader, writer = await asyncio.open_unix_connection(sock=sock)
        except OSError as error:
            sock.close()
            raise Unavailable(f"no keeper answers at {layout.socket}: {error.strerror}") from error
        return cls(layout, reader, writer)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        self._listening.cancel()
        await asyncio.gather(self._listening, return_exceptions=True)
        self._writer.close()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()

    async def closed(self) -> None:
        """Until the keeper is gone."""
        await asyncio.wait([self._listening])

    def spool_dir(self, exec_id: str) -> Path:
        """For `SpoolReader`. Raises `Invalid` for an id that is no safe file name."""
        return self._layout.exec_dir(exec_id)

    async def hello(self) -> protocol.Greeting:
        return await self._ask(protocol.Hello(id=self._next()), protocol.Greeting)

    async def start(
        self,
        exec_id: str,
        target: Target,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str,
        pty: protocol.PtySize | None = None,
        stdin: bool = False,
        context: bytes = b"",
    ) -> protocol.Started:
        """At most once per exec. A command that cannot start is a record with a FAILED frame, not an error."""
        request = protocol.Start(
            id=self._next(),
            exec=exec_id,
            target=target,
            argv=tuple(argv),
            env=dict(env),
            cwd=cwd,
            pty=pty,
            stdin=stdin,
            context=context,
        )
        return await self._ask(request, protocol.Started)

    async def prepare(self, target: Target, env: Mapping[str, str]) -> None:
        """Makes the next commands of a sandbox start faster, where that is possible. Returns when it is done."""
        await self._ask(protocol.Prepare(id=self._next(), target=target, env=dict(env)), protocol.Done)

    async def write(
        self, exec_id: str, data: bytes, *, offset: int | None = None, write_id: str | None = None, eof: bool = False
    ) -> protocol.Written:
        """Bytes for stdin, 1 MiB at most; a repeat with the same offset or id changes nothing.

        Raises `Invalid` for an unknown exec.
        """
        request = protocol.Write(id=self._next(), exec=exec_id, data=data, offset=offset, write_id=write_id, eof=eof)
        return await self._ask(request, protocol.Written)

    async def signal(
        self,
        exec_id: str,
        signum: int,
        scope: protocol.Scope = "tree",
        *,
        note: str | None = None,
        order: str | None = None,
    ) -> int:
        """How many processes got it: none of a repeat with the same `order`. `note` says why, and comes with the exit.

        Raises `Invalid` for an unknown exec, `Conflict` where the sandbox does not answer.
        """
        request = protocol.Signal(id=self._next(), exec=exec_id, signum=signum, scope=scope, note=note, order=order)
        return (await self._ask(request, protocol.Signalled)).count

    async def resize(self, exec_id: str, rows: int, cols: int) -> None:
        """Raises `Invalid` for an unknown exec, or one without a terminal."""
        await self._ask(protocol.Resize(id=self._next(), exec=exec_id, rows=rows, cols=cols), protocol.Done)

    async def list(self) -> list[protocol.ExecInfo]:
        return await self._ask(protocol.List(id=self._next()), list[protocol.ExecInfo])

    async def info(self, exec_id: str) -> protocol.ExecInfo:
        """Raises `Invalid` for an unknown exec."""
        return await self._ask(protocol.Info(id=self._next(), exec=exec_id), protocol.ExecInfo)

    async def wait(self, exec_id: str, position: int) -> protocol.Grown:
        """Until the record is longer than `position`, or final. Raises `Invalid` for an unknown exec."""
        return await self._ask(protocol.Wait(id=self._next(), exec=exec_id, position=position), protocol.Grown)

    async def confirm(self, exec_id: str, position: int) -> None:
        """The log has all before `position`; whole segments before it are removed. Raises `Invalid`."""
        await self._ask(protocol.Confirm(id=self._next(), exec=exec_id, position=position), protocol.Done)

    async def forget(self, exec_id: str) -> None:
        """Removes a final record; an unknown one is no error. Raises `Conflict` while it is not final."""
        await self._ask(protocol.Forget(id=self._next(), exec=exec_id), protocol.Done)

    async def shutdown(self, *, force: bool = False) -> None:
        """Raises `Conflict` while commands run, unless forced."""
        await self._ask(protocol.Shutdown(id=self._next(), force=force), protocol.Done)

    def _next(self) -> int:
        return next(self._ids)

    async def _ask(self, request: protocol.Request, result: type[T]) -> T:
        # uvloop raises RuntimeError for a write to what is closing.
        if self._gone or self._writer.is_closing():
            raise Unavailable("the keeper is gone")
        answer: asyncio.Future[protocol.Reply] = asyncio.get_running_loop().create_future()
        self._pending[request.id] = answer
        try:
            self._writer.write(protocol.framed(request))
            await self._writer.drain()
            reply = await answer
        except ConnectionError as error:
            raise Unavailable("the keeper is gone") from error
        finally:
            self._pending.pop(request.id, None)
        if reply.failure is not None:
            raise from_failure(reply.failure)
        return msgspec.msgpack.decode(reply.result, type=result)

    async def _listen(self) -> None:
        try:
            while (message := await protocol.read_message(self._reader)) is not None:
                reply = _replies.decode(message)
                answer = self._pending.get(reply.id)
                if answer is not None and not answer.done():
                    answer.set_result(reply)
        finally:
            self._gone = True
            for answer in self._pending.values():
                if not answer.done():
                    answer.set_exception(Unavailable("the keeper is gone"))
