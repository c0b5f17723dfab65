"""A log in block files, and ways in which a disk spoils them."""

import os
import shutil
import signal
import struct
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from contracts.streams import Limits
from infra.bus.out_stream import OutStream
from infra.bus.provision import provision
from infra.embedded import process
from infra.embedded.server import EmbeddedServer
from infra.settings import Durability
from tests.bus.servers import until

COUNT = 2601
SANDBOXES = 3
SIZE = 4000
LOG_MAX_BYTES = 16 * 1024 * 1024
"""Small, so that the server makes blocks of 4 MiB."""
HEAD = struct.Struct("<IQQH")
WITH_HEADERS = 1 << 31
CHECKSUM_BYTES = 8


class Record(NamedTuple):
    """One message in a block: length, sequence, time, length of the subject; subject, headers, payload, checksum."""

    file: Path
    at: int
    length: int
    sequence: int


Damage = Callable[["Blocks"], None]


class Blocks:
    """The block files of a log whose server is stopped."""

    def __init__(self, data: Path) -> None:
        self.directory = next((data / "nats").rglob("CLOCHE_LOG/msgs"))
        self.files = sorted(self.directory.glob("*.blk"), key=lambda file: int(file.stem))
        self.records = {record.sequence: record for file in self.files for record in _records(file)}

    def of(self, file: Path) -> list[int]:
        return [record.sequence for record in self.records.values() if record.file == file]

    def rest_of_block(self, sequence: int) -> tuple[int, int]:
        return sequence, self.of(self.records[sequence].file)[-1]

    def flip(self, sequence: int, offset: int, bit: int = 1) -> None:
        """A bit of a record; a negative offset counts from its end."""
        record = self.records[sequence]
        at = record.at + offset if offset >= 0 else record.at + record.length + offset
        with record.file.open("r+b") as block:
            block.seek(at)
            byte = block.read(1)[0]
            block.seek(at)
            block.write(bytes([byte ^ bit]))

    def truncate(self, sequence: int, kept: int) -> None:
        """The block ends after so many bytes of the record."""
        record = self.records[sequence]
        os.truncate(record.file, record.at + kept)


def _records(file: Path) -> list[Record]:
    raw = file.read_bytes()
    found: list[Record] = []
    at = 0
    while at < len(raw):
        length, sequence, _, _ = HEAD.unpack_from(raw, at)
        length &= ~WITH_HEADERS
        found.append(Record(file, at, length, sequence))
        at += length
    return found


def payload(sequence: int) -> Damage:
    return lambda blocks: blocks.flip(sequence, -CHECKSUM_BYTES - SIZE // 2)


def length(sequence: int) -> Damage:
    return lambda blocks: blocks.flip(sequence, 3, 0x40)


def moment(sequence: int) -> Damage:
    return lambda blocks: blocks.flip(sequence, 12)


def cut(sequence: int, kept: int) -> Damage:
    return lambda blocks: blocks.truncate(sequence, kept)


def lost_block(number: int) -> Damage:
    return lambda blocks: blocks.files[number].unlink()


def subject(number: int) -> str:
    return f"cloche.log.sb{number % SANDBOXES}.tool.noted.e1"


def content(number: int) -> bytes:
    """Of a kind that nobody knows."""
    return b'{"type":"tool.noted","data":{"n":%d,"text":"%b"}}' % (number, b"x" * SIZE)


async def written(data: Path, *, killed: bool) -> Path:
    """A log of several blocks. Its server ended in order, or by SIGKILL: then it reads its blocks when it starts."""
    server = EmbeddedServer(data, durability=Durability.PROCESS)
    await server.start()
    async with await server.connect("admin") as admin, await server.connect("executor") as executor:
        await provision(admin, Limits(log_max_bytes=LOG_MAX_BYTES), ("local",))
        async with OutStream(executor) as out:
            for number in range(1, COUNT + 1):
                await out.send(subject(number), content(number), f"m{number}")
    if killed:
        await kill(server)
    else:
        await server.stop()
    return data


async def kill(server: EmbeddedServer) -> None:
    identity = process.identify(server.pid)
    assert identity is not None
    os.kill(identity.pid, signal.SIGKILL)
    await until(lambda: not identity.alive)


def copied(written_: Path, to: Path, damage: Damage) -> Path:
    shutil.copytree(written_, to)
    damage(Blocks(to))
    return to
