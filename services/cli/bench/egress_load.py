"""Clients that ask as fast as they are answered."""

import asyncio
import time
from typing import NamedTuple, cast

import uvloop

from contracts.errors import Unavailable
from services.cli.bench.egress_servers import HERE, ORIGIN

AT_ONCE = 16
MESSAGE = b"\x00" * 64
"""Not to be taken for TLS or HTTP by anybody."""


class Run(NamedTuple):
    """Of one kind of request, through one way."""

    seconds: float
    latencies_ms: list[float]

    @property
    def rate(self) -> float:
        return len(self.latencies_ms) / self.seconds


class Way(NamedTuple):
    """How the origin is reached."""

    proxy: int | None
    """The port of a proxy; None = directly."""
    web: int
    echo: int

    def request(self, path: str, *, close: bool) -> bytes:
        place = f"{ORIGIN}:{self.web}"
        target = path if self.proxy is None else f"http://{place}{path}"
        further = "Connection: close\r\n" if close else ""
        return f"GET {target} HTTP/1.1\r\nHost: {place}\r\nUser-Agent: bench\r\nAccept: */*\r\n{further}\r\n".encode()

    def reached_by(self, port: int) -> tuple[str, int]:
        """Where to connect to, for that port of the origin."""
        return (ORIGIN, port) if self.proxy is None else (HERE, self.proxy)


class _Fetch(asyncio.Protocol):
    """One answer at a time, timed; its body is only counted."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._head = b""
        self._missing: int | None = None
        self._answered: asyncio.Future[None] | None = None
        self._lost = self._loop.create_future()
        self.closed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    async def fetch(self, request: bytes) -> float:
        """Milliseconds. Raises `Unavailable` for an answer that does not come, or is none."""
        began = time.perf_counter()
        self._answered = self._loop.create_future()
        self.transport.write(request)
        await self._answered
        return (time.perf_counter() - began) * 1000

    def data_received(self, data: bytes) -> None:
        if self._missing is None:
            self._head += data
            end = self._head.find(b"\r\n\r\n")
            if end < 0:
                return
            data = self._begin(self._head[:end], self._head[end + 4 :])
        assert self._missing is not None
        self._missing -= len(data)
        if self._missing <= 0:
            self._head, self._missing = b"", None
            self._settle(None)

    def _begin(self, head: bytes, rest: bytes) -> bytes:
        if b" 200 " not in head[:16]:
            self._settle(f"an answer that is no success: {head[:100]!r}")
        lines = head.lower().split(b"\r\n")
        self._missing = next((int(line.split(b":")[1]) for line in lines if line.startswith(b"content-length:")), 0)
        old = lines[0].startswith(b"http/1.0") and b"connection: keep-alive" not in lines
        self.closed = old or b"connection: close" in lines
        return rest

    def connection_lost(self, exc: BaseException | None) -> None:  # noqa: ARG002
        self.closed = True
        self._lost.set_result(None)
        self._settle("the connection was closed without an answer")

    async def aclose(self) -> None:
        self.transport.abort()
        await self._lost

    def _settle(self, error: str | None) -> None:
        if self._answered is None or self._answered.done():
            return
        if error is None:
            self._answered.set_result(None)
        else:
            self._answered.set_exception(Unavailable(error))


async def _connected(way: Way) -> _Fetch:
    _, fetch = await asyncio.get_running_loop().create_connection(_Fetch, *way.reached_by(way.web))
    return fetch


async def small(way: Way, count: int, *, keep: bool) -> Run:
    """`AT_ONCE` at a time, on connections that are kept, or on one for each."""
    return await asyncio.to_thread(uvloop.run, _small(way, count, keep=keep))


async def _small(way: Way, count: int, *, keep: bool) -> Run:
    request = way.request("/", close=not keep)
    latencies: list[float] = []

    async def one(share: int) -> None:
        fetch: _Fetch | None = None
        for _ in range(share):
            began = time.perf_counter()
            fetch = await _fetched(fetch, way, request)
            latencies.append((time.perf_counter() - began) * 1000)
            if not keep or fetch.closed:
                await fetch.aclose()
                fetch = None
        if fetch is not None:
            await fetch.aclose()

    began = time.perf_counter()
    await asyncio.gather(*(one(count // AT_ONCE) for _ in range(AT_ONCE)))
    return Run(time.perf_counter() - began, latencies)


async def _fetched(kept: _Fetch | None, way: Way, request: bytes) -> _Fetch:
    """The connection that it was fetched by: some proxies close theirs without a word."""
    if kept is not None:
        try:
            await kept.fetch(request)
        except Unavailable:
            await kept.aclose()
        else:
            return kept
    fresh = await _connected(way)
    await fresh.fetch(request)
    return fresh


async def download(way: Way, size: int) -> float:
    """Seconds for one answer that is so large."""
    return await asyncio.to_thread(uvloop.run, _download(way, size))


async def _download(way: Way, size: int) -> float:
    fetch = await _connected(way)
    try:
        return await fetch.fetch(way.request(f"/large/{size}", close=True)) / 1000
    finally:
        await fetch.aclose()


async def echoes(way: Way, count: int) -> Run:
    """Small messages there and back, one after another on each of `AT_ONCE` connections: tunnels, through a proxy."""
    return await asyncio.to_thread(uvloop.run, _echoes(way, count))


class _Echo(asyncio.Protocol):
    def __init__(self, tunnel: bytes, count: int) -> None:
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.latencies_ms: list[float] = []
        self._opening = tunnel
        self._left = count
        self._held = b""
        self._began = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        if self._opening:
            self._transport.write(self._opening)
        else:
            self._say()

    def data_received(self, data: bytes) -> None:
        self._held += data
        if self._opening:
            if b"\r\n\r\n" in self._held:
                self._opening, self._held = b"", b""
                self._say()
        elif len(self._held) >= len(MESSAGE):
            self._held = b""
            self.latencies_ms.append((time.perf_counter() - self._began) * 1000)
            self._left -= 1
            self._say()

    def connection_lost(self, exc: BaseException | None) -> None:  # noqa: ARG002
        if self._left:
            self.over.set_exception(Unavailable("a tunnel was closed"))
        else:
            self.over.set_result(None)

    def _say(self) -> None:
        if self._left == 0:
            self._transport.abort()
            return
        self._began = time.perf_counter()
        self._transport.write(MESSAGE)


async def _echoes(way: Way, count: int) -> Run:
    place = f"{ORIGIN}:{way.echo}"
    tunnel = b"" if way.proxy is None else f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n\r\n".encode()
    loop = asyncio.get_running_loop()
    began = time.perf_counter()
    made = [
        await loop.create_connection(lambda: _Echo(tunnel, count // AT_ONCE), *way.reached_by(way.echo))
        for _ in range(AT_ONCE)
    ]
    await asyncio.gather(*(echo.over for _, echo in made))
    return Run(time.perf_counter() - began, [each for _, echo in made for each in echo.latencies_ms])
