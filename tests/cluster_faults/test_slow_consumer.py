"""A slow consumer, who takes nothing: the server drops it, the publisher is not held up, and it misses nothing."""

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from infra.bus import reader
from infra.bus.gaps import Gap
from infra.bus.out_stream import OutStream
from tests.bus.servers import nats_in, until

SUBJECT = "cloche.log.sb.command.output.e"
LARGE = b'{"x":"%s"}' % (b"y" * 900_000)
MESSAGES = 120
"""More than the server keeps for one connection (64 MiB), and than the sockets between hold."""


async def test_one_that_takes_nothing_is_dropped_and_goes_on_without_a_gap(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with nats_in(tmp_path) as server:
        publisher, slow, quick = [await server.connect(user) for user in ("executor", "client", "client")]
        seen: list[int] = []
        gaps: list[Gap] = []

        async def follow() -> None:
            async for entry in reader.read(slow, ["cloche.log.sb.>"], 1, follow=True, on_gap=gaps.append):
                seen.append(entry.seq)

        following = asyncio.create_task(follow())
        async with OutStream(publisher) as out:
            await out.send(SUBJECT, b"{}", "first")
            await out.flush()
            await until(lambda: seen == [1])
            epoch = slow.epoch
            connection: Any = slow.client._transport
            connection._io_writer.transport.pause_reading()
            with caplog.at_level(logging.WARNING):
                for number in range(MESSAGES):
                    await out.send(SUBJECT, LARGE, f"m{number}")
                # The publisher is done, while the other has taken nothing at all.
                assert await out.flush() == MESSAGES + 1
        assert seen == [1]
        assert [entry.seq async for entry in reader.read(quick, [SUBJECT], MESSAGES, follow=False)][-1] == MESSAGES + 1
        await until(lambda: "Slow Consumer Detected" in _server_log(server.data))
        connection._io_writer.transport.resume_reading()
        await until(lambda: len(seen) >= MESSAGES + 1, seconds=60)
        following.cancel()
        assert (seen, gaps) == (list(range(1, MESSAGES + 2)), [])
        assert slow.epoch > epoch


def _server_log(data: Path) -> str:
    return (data / "nats" / "server.log").read_text()
