"""A slow disk: every fsync of the server takes long. Writers are slowed down; nothing is lost or stored twice."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from infra.bus import out_stream, publisher, reader
from infra.bus.connection import Bus
from infra.bus.out_stream import OutStream
from infra.bus.publisher import append
from tests.bus.servers import nats_in, until

SUBJECT = "cloche.log.sb.command.output.e"
DELAY_US = 300_000
ATTACHED = "attached"


@contextlib.asynccontextmanager
async def slow_fsync(pid: int, tmp_path: Path) -> AsyncIterator[None]:
    """By strace, which holds each return from the call: as real for the server as a disk that takes so long."""
    said = tmp_path / "strace"
    slow = f"inject=fsync,fdatasync:delay_exit={DELAY_US}"
    command = ["strace", "-f", "-p", str(pid), "-e", "trace=fsync,fdatasync", "-e", slow, "-o", os.devnull]
    with said.open("wb") as out:
        tracing = subprocess.Popen(command, stdout=out, stderr=out)
    try:
        await until(lambda: ATTACHED in said.read_text())
        yield
    finally:
        tracing.send_signal(signal.SIGINT)
        await asyncio.to_thread(tracing.wait)


async def numbers(bus: Bus) -> list[int]:
    return [json.loads(entry.data)["n"] async for entry in reader.read(bus, [SUBJECT], 1, follow=False)]


async def test_a_slow_disk_slows_writers_down_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Less than one fsync takes, so everything is sent again and again before it is acknowledged.
    for module in (publisher, out_stream):
        monkeypatch.setattr(module, "ACK_TIMEOUT_S", DELAY_US / 2e6)
    async with nats_in(tmp_path, durability="disk") as server:
        bus = await server.connect("executor")
        async with slow_fsync(server.embedded.pid, tmp_path):
            async with OutStream(bus, window=4) as out:
                for number in range(8):
                    await out.send(SUBJECT, b'{"n":%d}' % number, f"m{number}")
            begun = time.monotonic()
            for number in range(8, 10):
                await append(bus, SUBJECT, b'{"n":%d}' % number, f"m{number}")
            assert time.monotonic() - begun > 2 * DELAY_US / 1e6, "each waited for the disk"
        await append(bus, SUBJECT, b'{"n":10}', "m10")
        assert await numbers(bus) == list(range(11))
