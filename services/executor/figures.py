"""What is counted of commands. On the way of every byte: an addition for each frame, and no more."""

from infra.keeper.client import KeeperClient
from infra.keeper.frame import Frame, Kind
from infra.observing import about, catalogue
from infra.observing.figures import Number
from infra.observing.polling import poll

ENDS = frozenset({Kind.EXIT, Kind.LOST, Kind.FAILED})
_NAMES = {Kind.STDOUT: "stdout", Kind.STDERR: "stderr", Kind.PTY: "pty"}


async def watch_slots(keeper: KeeperClient) -> None:
    """For ever, until cancelled. The keeper's own counts: they begin anew with each keeper."""

    async def look() -> None:
        told = await keeper.hello()
        catalogue.slots_ready.set(told.slots_ready)
        catalogue.slots.of("hit").value = told.slot_hits
        catalogue.slots.of("miss").value = told.slot_misses

    await poll(look)


def begun(begun_ns: int) -> None:
    """The keeper has begun what the order in hand asks for."""
    order = about.order()
    if order is not None:
        catalogue.exec_start.observe(begun_ns / 1e9 - order.stored_at.timestamp())


class Course:
    """One command's, as far as this process tells it."""

    def __init__(self, begun_ns: int) -> None:
        self._begun_ns = begun_ns
        self._bytes: dict[Kind, Number] = {kind: catalogue.output_bytes.of(name) for kind, name in _NAMES.items()}

    def tell(self, frame: Frame) -> None:
        line = self._bytes.get(frame.kind)
        if line is not None:
            line.value += len(frame.payload)
            if frame.offset == 0:
                catalogue.exec_first_byte.observe((frame.time_ns - self._begun_ns) / 1e9)
        elif frame.kind in ENDS:
            catalogue.exec_seconds.observe((frame.time_ns - self._begun_ns) / 1e9)
