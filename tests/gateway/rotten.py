"""A node whose store has lost an event in the middle of a sandbox."""

from pathlib import Path
from typing import NamedTuple

from tests.faults.rotting import CHECKSUM_BYTES, Blocks
from tests.gateway.rig import gateway_in

SANDBOX = "spoilt"


async def spoil(data: Path) -> int:
    """A bit flips in what a command wrote, while the server is down. The sequence of that event."""
    async with gateway_in(data) as gateway:
        sandbox = await gateway.cloche.create(id=SANDBOX)
        for word in ("before", "lost", "after"):
            result = await sandbox.run(f"echo {word}")
            assert result.exit_code == 0
        written = [event.sequence async for event in sandbox.events(types=["command.output"])]
    Blocks(data).flip(written[1], -CHECKSUM_BYTES - 20)
    return written[1]


class SpoiltFile(NamedTuple):
    before: int
    """The file said `one`."""
    lost: int
    """What told that it says `two`."""
    after: int


async def spoil_file(data: Path) -> SpoiltFile:
    """As `spoil`, in what tells of a file's new content."""
    async with gateway_in(data) as gateway:
        sandbox = await gateway.cloche.create(id=SANDBOX)
        ends: list[int] = []
        for word in ("one", "two"):
            assert (await sandbox.run(f"echo {word} > said")).exit_code == 0
            ends.append((await sandbox.flush()).sequence)
        told = [event.sequence async for event in sandbox.events(types=["file.modified"])]
    Blocks(data).flip(told[-1], -CHECKSUM_BYTES - 20)
    return SpoiltFile(ends[0], told[-1], ends[1])
