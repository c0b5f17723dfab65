"""A node whose store has lost an event in the middle of a sandbox."""

from pathlib import Path

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
