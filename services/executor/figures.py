"""What is counted of commands. On the way of every byte: an addition for each frame, and no more."""

from infra.keeper.client import KeeperClient
from infra.keeper.frame import Frame, Kind
from infra.keeper.protocol import Greeting
from infra.observing import about, catalogue
from infra.observing.figures import Number
from infra.observing.polling import poll

ENDS = frozenset({Kind.EXIT, Kind.LOST, Kind.FAILED})
_NAMES = {Kind.STDOUT: "stdout", Kind.STDERR: "stderr", Kind.PTY: "pty"}


class Slots:
    """What the keepers of one data folder tell of their slots, one keeper after another."""

    def __init__(self) -> None:
        self._told: Greeting | None = None

    async def watch(self, keeper: KeeperClient) -> None:
        """For ever, until cancelled."""

        async def look() -> None:
            self.take(await keeper.hello())

        with catalogue.slots_ready.asking(lambda: self._told.slots_ready if self._told else 0):
            await poll(look)

    def take(self, told: Greeting) -> None:
        """A keeper counts from its own beginning. Others may be counted in the same process."""
        known = self._told if self._told is not None and self._told.instance == told.instance else None
        catalogue.slots.add("hit", amount=told.slot_hits - (known.slot_hits if known else 0))
        catalogue.slots.add("miss", amount=told.slot_misses - (known.slot_misses if known else 0))
        self._told = told


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
