"""Clients and servers that do whatever they like, at random: nothing may be left of them."""

import asyncio
import contextlib
import logging
import random

import pytest

from infra.proxy import Limits
from tests.proxy.hellos import hello
from tests.proxy.rig import Client, get, ok, origin, proxying

ROUNDS = 150
AT_ONCE = 15
LIMITS = Limits(head_timeout_s=0.3, idle_timeout_s=0.4, gone_timeout_s=0.2)
ANSWERS = [
    ok(),
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nzz\r\n",
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\nbytes",
    b"HTTP/1.1 100 Continue\r\n\r\n" * 3 + ok() * 2,
    b"\x00garbage",
    b"",
]


def requests(port: int) -> list[bytes]:
    place = f"origin.test:{port}"
    post = f"POST http://{place}/ HTTP/1.1\r\nHost: {place}\r\n".encode()
    connect = f"CONNECT {place} HTTP/1.1\r\n\r\n".encode()
    return [
        get(port) * 3,
        get(port, host="other.test") * 3,
        get(port, "/", "Connection: Upgrade", "Upgrade: websocket"),
        post + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        post + b"Content-Length: 5\r\n\r\nhello",
        connect + hello("origin.test"),
        connect + f"GET / HTTP/1.1\r\nHost: {place}\r\n\r\n".encode() * 2,
        connect + b"\x01bytes",
        b"\x05\x01\x00\x05\x01\x00\x03\x0borigin.test" + port.to_bytes(2) + b"\x01bytes",
    ]


def spoilt(chance: random.Random, raw: bytes) -> bytes:
    changed = bytearray(raw)
    for _ in range(chance.choice([0, 1, 3])):
        at = chance.randrange(len(changed))
        changed[at : at + chance.randrange(3)] = chance.choice([b"", b"\r\n", b"\n", b"\x00", b" ", b":", b"\xff"])
    return bytes(changed)


async def behave(chance: random.Random, client: Client, raw: bytes) -> None:
    at = chance.randrange(len(raw) + 1)
    await client.say(raw[:at])
    await asyncio.sleep(0)
    await client.say(raw[at:])
    manner = chance.choice(["vanish", "end", "read"])
    if manner == "vanish":
        client.vanish()
    elif manner == "end":
        client.writer.write_eof()
    await asyncio.wait_for(client.rest(), 0.05)


async def test_nothing_is_left_of_whatever_happens(caplog: pytest.LogCaptureFixture) -> None:
    chance = random.Random(6)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(chance.choice([1, 10_000]))
        writer.write(chance.choice(ANSWERS))
        if chance.random() < 0.2:
            writer.transport.abort()

    async with origin(serve) as port, proxying(LIMITS) as rig:
        kinds = requests(port)

        async def one() -> None:
            async with rig.client() as client:
                with contextlib.suppress(OSError, TimeoutError):
                    await behave(chance, client, spoilt(chance, chance.choice(kinds)))
            if chance.random() < 0.1 and rig.gate.passages:
                rig.gate.passages[-1].cut("cut")

        with caplog.at_level(logging.WARNING):
            for _ in range(ROUNDS // AT_ONCE):
                await asyncio.gather(*(one() for _ in range(AT_ONCE)))
            for passage in rig.gate.passages:
                await passage.over
        assert rig.gate.passages
        assert rig.gate.refusals
    assert caplog.records == []
    assert asyncio.all_tasks() == {asyncio.current_task()}
