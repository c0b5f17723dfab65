"""A log with something in it."""

from infra.bus.connection import Bus
from infra.bus.out_stream import OutStream


async def fill(bus: Bus, count: int, *, sandboxes: int = 3, start: int = 0, size: int = 0) -> None:
    async with OutStream(bus) as out:
        for number in range(start, start + count):
            subject = f"cloche.log.sb{number % sandboxes}.command.output.e{number % 2}"
            await out.send(subject, b"%d " % number + bytes(size), f"m{number}")
