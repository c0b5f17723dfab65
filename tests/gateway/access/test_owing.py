"""Whoever does not say what they want holds neither a connection nor our memory."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from tests.gateway.access.rig import door_in, nobody
from tests.gateway.rig import Gateway

IMPATIENT = "slow_s = 0.5"
HEAD = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n"
MB = 1 << 20


@contextlib.asynccontextmanager
async def _connected(gateway: Gateway) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    try:
        yield reader, writer
    finally:
        writer.close()


@pytest.mark.parametrize(
    "said",
    [b"", b"GET /hea", HEAD, HEAD + b"\r\n" + HEAD, HEAD + b"content-length: 9\r\n\r\n"],
    ids=["nothing", "a line", "a head", "a second head", "a body that nobody asked for"],
)
async def test_whoever_owes_the_rest_of_a_request_is_let_go_of(tmp_path: Path, said: bytes) -> None:
    async with door_in(tmp_path, IMPATIENT) as gateway, _connected(gateway) as (reader, writer):
        writer.write(said)
        # Until it is closed.
        answers = await reader.read()
        assert answers.count(b" 200 ") == said.count(b"\r\n\r\n")


async def test_one_that_says_a_little_now_and_then_is_let_go_of_as_well(tmp_path: Path) -> None:
    async with door_in(tmp_path, IMPATIENT) as gateway, _connected(gateway) as (reader, writer):
        writer.write(HEAD)
        closed = asyncio.create_task(reader.read())
        while not closed.done():
            with_more = asyncio.wait([closed], timeout=0.1)
            writer.write(b"x")
            await with_more


async def test_a_head_without_an_end_is_refused_before_it_takes_our_memory(tmp_path: Path) -> None:
    async with door_in(tmp_path) as gateway, _connected(gateway) as (reader, writer):
        before = psutil.Process(gateway.service.pid).memory_info().rss
        writer.write(HEAD + b"x: " + b"a" * (64 * MB))
        # The answer may be lost with the connection, since not all was read.
        with contextlib.suppress(ConnectionError):
            assert b" 200 " not in await reader.read()
        assert psutil.Process(gateway.service.pid).memory_info().rss - before < 16 * MB


async def test_a_request_whose_head_is_large_is_served(tmp_path: Path) -> None:
    async with door_in(tmp_path) as gateway, nobody(gateway) as client:
        for _ in range(3):
            assert (await client.get("/healthz", headers={"cookie": "a" * 30_000})).status_code == 200


async def test_what_anybody_may_send_is_small(tmp_path: Path) -> None:
    async with door_in(tmp_path) as gateway, nobody(gateway) as stranger:
        body = b'{"token": "%b"}' % (b"x" * MB)
        sent = await stranger.post("/api/v1/session", content=body, headers={"content-type": "application/json"})
        assert (sent.status_code, sent.json()["code"]) == (413, "TOO_LARGE")
