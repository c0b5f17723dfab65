"""A full disk: publishers wait, nothing that was acknowledged is lost, and when there is room again all goes on."""

import asyncio
import contextlib
import logging
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from infra.bus import publisher, reader
from infra.bus.connection import Bus
from infra.bus.publisher import append
from infra.embedded import server as embedded
from tests.bus.servers import Server, nats_in, until

SUBJECT = "cloche.log.sb.command.output.e"
LARGE = b'{"x":"%s"}' % (b"y" * 100_000)
WIDE = 3 * 1024**3
"""What streams reserve has to fit; a tmpfs takes only what is written."""


class Disk:
    """A file system of its own that can be made smaller and larger."""

    def __init__(self, place: Path) -> None:
        self.place = place

    @classmethod
    @contextlib.contextmanager
    def mounted(cls, place: Path) -> Iterator["Disk"]:
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={WIDE}", "cloche-test", place], check=True)
        try:
            yield cls(place)
        finally:
            subprocess.run(["umount", "--lazy", place], check=True)

    def shrink(self, room: int) -> None:
        used = sum(file.stat().st_blocks * 512 for file in self.place.rglob("*") if file.is_file())
        self._resize(used + room)

    def widen(self) -> None:
        self._resize(WIDE)

    def _resize(self, size: int) -> None:
        subprocess.run(["mount", "-o", f"remount,size={size}", self.place], check=True)


@contextlib.asynccontextmanager
async def on_small_disk(tmp_path: Path) -> AsyncIterator[tuple[Server, Disk]]:
    tmp_path.joinpath("disk").mkdir()
    with Disk.mounted(tmp_path / "disk") as disk:
        async with nats_in(disk.place, durability="disk") as server:
            yield server, disk


async def stored(bus: Bus) -> list[str]:
    return [entry.msg_id async for entry in reader.read(bus, [SUBJECT], 1, follow=False)]


async def test_a_full_disk_holds_publishers_until_there_is_room_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(embedded, "LOOK_S", 0.2)
    monkeypatch.setattr(publisher, "ACK_TIMEOUT_S", 0.5)
    async with on_small_disk(tmp_path) as (server, disk):
        bus = await server.connect("executor")
        acknowledged: list[str] = []

        async def write() -> None:
            for number in range(40):
                await append(bus, SUBJECT, LARGE, f"m{number}")
                acknowledged.append(f"m{number}")

        disk.shrink(2_000_000)
        with caplog.at_level(logging.ERROR):
            writing = asyncio.create_task(write())
            await until(lambda: "no space left on device" in caplog.text)
        assert 0 < len(acknowledged) < 40
        assert "whoever publishes waits" in caplog.text
        # What is there can be read meanwhile, and nobody is told that something was stored that was not.
        assert (await stored(bus))[: len(acknowledged)] == acknowledged
        disk.widen()
        await writing
        assert await stored(bus) == [f"m{number}" for number in range(40)]
