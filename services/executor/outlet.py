"""One command's record, from the keeper's spool to the log: every frame one event, in order, once."""

import asyncio
import collections
from typing import NamedTuple

import msgspec

from contracts import codec, subjects
from contracts.events.command import CommandInput, CommandLost, CommandOutput, Stream, Totals
from contracts.message import Fact
from contracts.proof import TERMINAL
from infra.bus import reader
from infra.bus.connection import Bus
from infra.bus.out_stream import OutStream, Right
from infra.bus.publisher import Ack, Expect
from infra.journal import Journal
from infra.keeper.client import KeeperClient
from infra.keeper.frame import STREAMS, Frame, Kind
from infra.keeper.spool import SpoolReader
from infra.secrets.seams import StreamMask
from services.executor import course
from services.executor.figures import ENDS, Course
from services.executor.memory import Memory
from services.executor.ownership import NoLongerOurs, Ownership
from services.executor.record import ORPHAN, OUT_OF_MEMORY, Context, fact_of, started, time_of, was_killed

CONFIRM_BYTES = 8 * 1024 * 1024
START = "start"
END = "-end"
FRAMES_BETWEEN_PAUSES = 64
TOGETHER_S = 0.012


class Published(NamedTuple):
    """How much of a record the log has."""

    started: bool
    frame: int
    """Index of the last frame; -1 for none."""
    ended: bool
    sequence: int = 0
    """The last event's; 0 for none."""
    orphan: bool = False
    """Whoever had the sandbox meanwhile has told its end, without this record of it."""


NOTHING = Published(started=False, frame=-1, ended=False)


async def published(bus: Bus, sandbox: str, exec_id: str) -> Published:
    """What the log says of this exec. Frames are published in order, so its last event tells all."""
    last = await reader.last(bus, subjects.told_of(sandbox, exec_id))
    if last is None:
        return NOTHING
    head = codec.decode_head(last.data)
    fact = codec.decode_fact(head)
    trailing = isinstance(fact, CommandOutput) and fact.after_exit
    mark = head.id.rpartition(".")[2].removesuffix(END)
    return Published(
        started=True,
        frame=int(mark) if mark.isdigit() else -1,
        ended=trailing or head.type.partition(".")[2] in TERMINAL,
        sequence=last.seq,
        orphan=head.id.endswith(f".{ORPHAN}"),
    )


async def totals_in_log(bus: Bus, sandbox: str, exec_id: str) -> Totals:
    """Bytes of each stream that the log has of this exec."""
    seen: dict[str, int] = {}
    filters = subjects.events_of(sandbox, family="command", scope=exec_id)
    async for entry in reader.read(bus, filters, 1, follow=False):
        fact = codec.decode_fact(codec.decode_head(entry.data))
        if isinstance(fact, CommandOutput):
            seen[fact.stream.value] = fact.offset + fact.size
        elif isinstance(fact, CommandInput):
            seen[Stream.STDIN.value] = fact.offset + fact.size
    return Totals(**seen)


class Outlet:
    """Publishes a record until it is final and the log has all of it; then the keeper forgets it."""

    def __init__(
        self,
        bus: Bus,
        journal: Journal,
        keeper: KeeperClient,
        ownership: Ownership,
        memory: Memory,
        context: Context,
        begun_ns: int,
    ) -> None:
        self._bus = bus
        self._journal = journal
        self._keeper = keeper
        self._ownership = ownership
        self._memory = memory
        self._context = context
        self._begun_ns = begun_ns
        self._on_their_way: collections.deque[tuple[asyncio.Future[Ack], int]] = collections.deque()
        self._confirmed = 0
        self._course = Course(begun_ns)
        self._masks: dict[Kind, StreamMask] = {}

    async def run(self, known: Published, first: int = 0) -> None:
        """From position `first` of the record. Raises `Unavailable` when the keeper is gone: the next one has the
        record, or says that it is lost. Raises `NoLongerOurs`.
        """
        key = self._context.key
        spool = SpoolReader(self._keeper.spool_dir(key))
        position, ended, is_started = first, known.ended, known.started
        owner = await self._ownership.guard(self._context.sandbox)
        async with OutStream(self._bus, right=Right(owner, self._told(known)), renew=self._renew) as out:
            while True:
                for frame in map(self._masked, spool.frames(position)):
                    if not is_started and frame.kind != Kind.FAILED:
                        await self._send(out, started(self._context), START, self._begun_ns)
                    is_started = True
                    if frame.index > known.frame or (frame.kind in ENDS and not known.ended):
                        await self._publish(out, frame, known, ended=ended)
                    elif frame.index % FRAMES_BETWEEN_PAUSES == 0:
                        await asyncio.sleep(0)
                    if frame.kind in ENDS:
                        # Also where the log has it already: whoever told it there may have died before it told us.
                        course.ended(self._context, self._begun_ns, frame)
                        ended = True
                    position = frame.next_position
                    if frame.kind == Kind.CLOSED:
                        await out.flush()
                        await self._keeper.forget(key)
                        return
                if not is_started:
                    if await self._grows_at_once(key, position):
                        continue
                    await self._send(out, started(self._context), START, self._begun_ns)
                    is_started = True
                await self._confirm()
                await self._keeper.wait(key, position)

    def _told(self, known: Published) -> Expect:
        return Expect(subjects.told_of(self._context.sandbox, self._context.exec), known.sequence)

    async def _renew(self) -> Right:
        """Raises `NoLongerOurs`, `Unavailable`."""
        context = self._context
        owner = await self._ownership.confirm(context.sandbox)
        known = await published(self._bus, context.sandbox, context.exec)
        if known.orphan:
            raise NoLongerOurs(f"the end of {context.exec!r} was told without its record")
        return Right(owner, self._told(known))

    async def _grows_at_once(self, key: str, position: int) -> bool:
        """A command that is over in a moment is told whole, once it is: until then it has the machine for itself."""
        try:
            async with asyncio.timeout(TOGETHER_S):
                await self._keeper.wait(key, position)
        except TimeoutError:
            return False
        return True

    def _masked(self, frame: Frame) -> Frame:
        """Without the part of a secret that crosses the border of the frame: the log's own mask sees whole ones."""
        if frame.kind not in STREAMS:
            return frame
        mask = self._masks.setdefault(frame.kind, StreamMask(self._bus.redactor))
        payload = mask.mask(frame.payload)
        return frame if payload is frame.payload else msgspec.structs.replace(frame, payload=payload)

    async def _publish(self, out: OutStream, frame: Frame, known: Published, *, ended: bool) -> None:
        fact = fact_of(frame, self._context, ended=ended)
        if fact is None:
            return
        self._course.tell(frame)
        mark = str(frame.index)
        if frame.kind in ENDS:
            # A record that lost its tail to a power cut ends at an index that the log has already.
            mark += END
            if isinstance(fact, CommandLost) and frame.index <= known.frame:
                totals = await totals_in_log(self._bus, self._context.sandbox, self._context.exec)
                fact = msgspec.structs.replace(fact, totals=totals)
            if was_killed(fact) and await self._memory.ran_out(self._context.sandbox):
                fact = msgspec.structs.replace(fact, cause=OUT_OF_MEMORY)
        ack = await self._send(out, fact, mark, frame.time_ns)
        self._on_their_way.append((ack, frame.next_position))
        if frame.next_position - self._confirmed > CONFIRM_BYTES:
            await self._confirm()

    async def _send(self, out: OutStream, fact: Fact, mark: str, time_ns: int) -> asyncio.Future[Ack]:
        context = self._context
        written = self._journal.write(
            context.sandbox,
            fact,
            id=f"{context.sandbox}.{context.exec}.{mark}",
            command=context.exec,
            time=time_of(time_ns),
        )
        return await out.send(written.subject, written.payload, written.id)

    async def _confirm(self) -> None:
        """Tell the keeper what the log has, so that it may drop it and let a slowed writer go on."""
        position = self._confirmed
        while self._on_their_way and self._on_their_way[0][0].done():
            position = self._on_their_way.popleft()[1]
        if position - self._confirmed > CONFIRM_BYTES:
            self._confirmed = position
            await self._keeper.confirm(self._context.key, position)
