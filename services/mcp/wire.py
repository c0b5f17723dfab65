"""The protocol on standard input and output: one JSON-RPC message a line, of bounded length.

The SDK has a transport of its own for this. It takes lines of any length, and reads in a thread that no signal wakes.
"""

import asyncio
import json
import os
import select
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import INVALID_REQUEST, PARSE_ERROR, ErrorData, JSONRPCError, jsonrpc_message_adapter

MAX_LINE = 16 * 1024 * 1024
"""More than any tool takes, so that what is too long for a tool is told by the tool."""
MAX_ID = 200
READ_SIZE = 64 * 1024
FLUSH_S = 1.0

Received = SessionMessage | Exception


class Streams(NamedTuple):
    received: MemoryObjectReceiveStream[Received]
    sent: MemoryObjectSendStream[SessionMessage]


class TooLong(Exception):
    """A line that was not kept."""


class Wire:
    """Takes standard input and output for the protocol alone: from then on what is printed goes to standard error."""

    def __init__(self, source: int, sink: int) -> None:
        self._source = source
        self._sink = sink
        self._idle = asyncio.Event()
        self._idle.set()

    @classmethod
    def of_this_process(cls) -> "Wire":
        source, sink = os.dup(0), os.dup(1)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.dup2(2, 1)
        os.close(nothing)
        return cls(source, sink)

    @asynccontextmanager
    async def streams(self) -> AsyncIterator[Streams]:
        """Ends when the client closes either side. What was said last is still sent, within a bound."""
        came, received = anyio.create_memory_object_stream[Received](0)
        sent, going = anyio.create_memory_object_stream[SessionMessage](0)
        flushed = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._receive, came, sent.clone())
            tasks.start_soon(self._send, going, came, flushed)
            yield Streams(received, sent)
            await sent.aclose()
            with anyio.move_on_after(FLUSH_S):
                await flushed.wait()
            tasks.cancel_scope.cancel()

    async def _receive(
        self, came: MemoryObjectSendStream[Received], complaints: MemoryObjectSendStream[SessionMessage]
    ) -> None:
        try:
            async with came, complaints:
                async for line in _lines(self._source):
                    # Whoever does not read our answers is not read from: the answers would pile up here.
                    await self._idle.wait()
                    understood = _understood(line)
                    if isinstance(understood, JSONRPCError):
                        await complaints.send(SessionMessage(understood))
                    elif understood is not None:
                        await came.send(understood)
        except (anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
            # Whatever is wrong with what they write on, it is the end of what they say.
            return

    async def _send(
        self,
        going: MemoryObjectReceiveStream[SessionMessage],
        came: MemoryObjectSendStream[Received],
        flushed: anyio.Event,
    ) -> None:
        try:
            async with going:
                async for each in going:
                    line = each.message.model_dump_json(by_alias=True, exclude_unset=True) + "\n"
                    await self._write(line.encode())
        except OSError:
            # Nobody reads any more, which is as good as the end of what they say.
            await came.aclose()
        finally:
            flushed.set()

    async def _write(self, data: bytes) -> None:
        self._idle.clear()
        view = memoryview(data)
        try:
            while view:
                await _ready(self._sink, writing=True)
                # So much never blocks once there is room at all, and the descriptor may be shared: it stays as it is.
                view = view[os.write(self._sink, view[: select.PIPE_BUF]) :]
        finally:
            self._idle.set()


async def _lines(source: int) -> AsyncIterator[bytes | TooLong]:
    kept, is_too_long = bytearray(), False
    while True:
        await _ready(source)
        data = os.read(source, READ_SIZE)
        *ended, rest = data.split(b"\n")
        for piece in ended:
            kept += piece
            yield TooLong() if is_too_long or len(kept) > MAX_LINE else bytes(kept)
            kept, is_too_long = bytearray(), False
        kept += rest
        if len(kept) > MAX_LINE:
            kept, is_too_long = bytearray(), True
        if not data:
            return


async def _ready(descriptor: int, *, writing: bool = False) -> None:
    """Until it would not block. A regular file cannot be polled, and never blocks."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    watch: Callable[..., None] = loop.add_writer if writing else loop.add_reader
    try:
        watch(descriptor, ready.set)
    except PermissionError:
        return
    try:
        await ready.wait()
    finally:
        (loop.remove_writer if writing else loop.remove_reader)(descriptor)


def _understood(line: bytes | TooLong) -> SessionMessage | JSONRPCError | None:
    """None for an empty line."""
    if isinstance(line, TooLong):
        return _complaint(None, INVALID_REQUEST, f"a message has {MAX_LINE} bytes at most")
    if not line.strip():
        return None
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError:
        return _not_a_message(line)


def _not_a_message(line: bytes) -> JSONRPCError:
    """To whoever waits, where that can be told: half of a surrogate pair is no reason to wait for ever."""
    try:
        known = json.loads(line)
    except (ValueError, RecursionError):
        return _complaint(None, PARSE_ERROR, "not JSON")
    about = known.get("id") if isinstance(known, dict) else None
    return _complaint(about if _is_id(about) else None, INVALID_REQUEST, "not a JSON-RPC message, or not Unicode")


def _is_id(about: object) -> bool:
    return type(about) in (int, str) and len(str(about)) <= MAX_ID and str(about).isascii()


def _complaint(about: int | str | None, code: int, message: str) -> JSONRPCError:
    return JSONRPCError(jsonrpc="2.0", id=about, error=ErrorData(code=code, message=message))
