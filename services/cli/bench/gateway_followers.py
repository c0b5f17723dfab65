"""Many followers in one process: they look at each frame's beginning and count the rest, so that little is their own.

It reads a `Wanted` from its standard input, says `ready` when all are connected, and prints what came of it.
"""

import asyncio
import datetime
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import uvloop
from msgspec import Struct

from contracts.errors import Unavailable
from services.cli.bench.percentile import percentile

LOOKED_AT = 256
"""Bytes of a frame: its type and its time are there."""
BUFFER = 256 * 1024
LAST = b'"event_type":"command.completed"'
STAMP = b'"timestamp":"'
KEY = "AAAAAAAAAAAAAAAAAAAAAA=="
HERE = "127.0.0.1"


class Wanted(Struct, frozen=True, kw_only=True):
    port: int
    path: str
    token: str = ""
    followers: int
    keep: str | None = None
    """A file for the frames of the first follower, each with its length before it."""


class Followed(Struct, frozen=True, kw_only=True):
    ended: float
    """When the last of them had the last frame, by the clock that all processes share."""
    bytes: int
    """Of all frames' texts, all followers together."""
    p50_ms: float
    p99_ms: float
    """From the log to a follower."""


class _Follower(asyncio.BufferedProtocol):
    """Frames of a server have no mask, and none is split up here."""

    def __init__(self, wanted: Wanted, kept: list[bytes] | None) -> None:
        self._wanted = wanted
        self._kept = kept
        self._buffer = bytearray(BUFFER)
        self._held = b""
        self._left: int | None = None
        self._begun = bytearray()
        self._loop = asyncio.get_running_loop()
        self.connected: asyncio.Future[None] = self._loop.create_future()
        self.done: asyncio.Future[float] = self._loop.create_future()
        self.bytes = 0
        self.latencies_ms: list[float] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        lines = [
            f"GET {self._wanted.path} HTTP/1.1",
            f"Host: {HERE}:{self._wanted.port}",
            "Connection: Upgrade",
            "Upgrade: websocket",
            "Sec-WebSocket-Version: 13",
            f"Sec-WebSocket-Key: {KEY}",
            f"Authorization: Bearer {self._wanted.token}",
        ]
        transport.write(("\r\n".join(lines) + "\r\n\r\n").encode())  # type: ignore[attr-defined]

    def connection_lost(self, exc: Exception | None) -> None:
        for each in (self.connected, self.done):
            if not each.done():
                each.set_exception(Unavailable(f"a follower was let go of: {exc or self._held[:200]!r}"))

    def get_buffer(self, _sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, count: int) -> None:
        view = memoryview(self._buffer)[:count]
        if not self.connected.done():
            self._held += bytes(view)
            head, found, rest = self._held.partition(b"\r\n\r\n")
            if not found:
                return
            if b" 101 " not in head[:16]:
                self.connected.set_exception(Unavailable(f"not connected: {self._held[:300]!r}"))
                return
            self.connected.set_result(None)
            self._held = b""
            view = memoryview(rest)
        self._read(view)

    def _read(self, view: memoryview) -> None:
        at, end = 0, len(view)
        while at < end:
            if self._left is None:
                # Byte by byte: there are few of these.
                self._held += view[at : at + 1]
                at += 1
                self._left = _length(self._held)
            else:
                taken = min(self._left, end - at)
                if len(self._begun) < LOOKED_AT or self._kept is not None:
                    self._begun += view[at : at + taken]
                self.bytes += taken
                self._left -= taken
                at += taken
            if self._left == 0:
                self._whole()

    def _whole(self) -> None:
        now = time.time()
        begun = bytes(self._begun[:LOOKED_AT])
        if begun.startswith(b'{"type":"event"'):
            self.latencies_ms.append((now - _stamp(begun)) * 1000)
            if self._kept is not None:
                self._kept.append(bytes(self._begun))
            if LAST in begun and not self.done.done():
                self.done.set_result(time.perf_counter())
        self._held, self._left = b"", None
        self._begun.clear()


def _length(header: bytes) -> int | None:
    """Of the text, once the header is whole."""
    if len(header) < 2 or len(header) < {126: 4, 127: 10}.get(header[1], 2):
        return None
    return header[1] if header[1] < 126 else int.from_bytes(header[2:], "big")


def _stamp(begun: bytes) -> float:
    text = begun.partition(STAMP)[2].partition(b'"')[0].decode().removesuffix("Z")
    whole, _, fraction = text.partition(".")
    return datetime.datetime.fromisoformat(f"{whole}+00:00").timestamp() + float(f"0.{fraction or 0}")


async def _follow(wanted: Wanted) -> Followed:
    loop = asyncio.get_running_loop()
    kept: list[bytes] | None = None if wanted.keep is None else []
    followers = []
    for number in range(wanted.followers):
        own = kept if number == 0 else None
        _, follower = await loop.create_connection(lambda own=own: _Follower(wanted, own), HERE, wanted.port)  # type: ignore[misc]
        await follower.connected
        followers.append(follower)
    print("ready", flush=True)
    ended = max(await asyncio.gather(*(follower.done for follower in followers)))
    latencies = [ms for follower in followers for ms in follower.latencies_ms]
    _keep(wanted.keep, kept or [])
    return Followed(
        ended=ended,
        bytes=sum(follower.bytes for follower in followers),
        p50_ms=percentile(latencies, 50),
        p99_ms=percentile(latencies, 99),
    )


def _keep(file: str | None, frames: list[bytes]) -> None:
    if file is not None:
        Path(file).write_bytes(b"".join(len(each).to_bytes(4, "big") + each for each in frames))


def main() -> None:
    wanted = msgspec.json.decode(sys.stdin.buffer.readline(), type=Wanted)
    sys.stdout.buffer.write(msgspec.json.encode(uvloop.run(_follow(wanted))) + b"\n")


class Followers:
    """Connected, in a process of their own."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def followed(self) -> Followed:
        """When each of them has seen the end. Raises `Unavailable` where one was let go of."""
        assert self._process.stdout is not None
        answer = await self._process.stdout.readline()
        if not answer:
            raise Unavailable("the followers have ended; their last words are above")
        return msgspec.json.decode(answer, type=Followed)


@asynccontextmanager
async def followers(wanted: Wanted) -> AsyncIterator[Followers]:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", f"from {__name__} import main; main()", stdin=pipe, stdout=pipe
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(msgspec.json.encode(wanted) + b"\n")
        if await process.stdout.readline() != b"ready\n":
            raise Unavailable("the followers did not connect; their last words are above")
        yield Followers(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
