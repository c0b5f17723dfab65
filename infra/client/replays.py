"""A past session that is played again, as a program outside follows and steers it."""

import asyncio
import contextlib
import datetime
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from contracts import codec, subjects
from contracts.commands import replay as orders
from contracts.errors import ClocheError, Invalid, Unavailable
from contracts.message import EventHead, Order
from contracts.queries import ANSWERS
from contracts.replays import GetReplay, JoinedReplay, ListReplays, Playing, ReplayList, ReplayStatus
from contracts.screens import Screen
from infra.bus import reader
from infra.bus.connection import Bus
from infra.client.asking import ask
from infra.client.orders import publish, raise_if_given_up
from infra.client.replay_feed import Feed, Heard
from infra.ids import new_id
from infra.log.choosing import view_of

SILENCE_S = 5.0
"""A replay that plays is heard of every second; after such a silence it is worth asking."""
ASK_AGAIN_S = 0.5
LEAVING_S = 5.0
OVER = (Playing.ENDED, Playing.STOPPED)


class Played(NamedTuple):
    """An event, played again."""

    sequence: int
    """Its own, in the log."""
    passes: int
    """Within one pass every event comes once, and sequences grow."""
    subject: str
    """As in the log."""
    head: EventHead
    raw: bytes
    """Verbatim."""


class Replay:
    """Followed from where it was joined. Made by `Cloche.replay` and `Cloche.join`."""

    def __init__(self, bus: Bus, feed: Feed, joined: JoinedReplay) -> None:
        self._bus = bus
        self._feed = feed
        self._joined = joined.status
        self.screens: tuple[Screen, ...] = joined.screens
        """Of the commands that ran where it was joined, and of the last that had ended: events come after these."""
        self._at = (joined.status.passes, joined.status.position)

    @property
    def id(self) -> str:
        return self._joined.replay

    @property
    def sandbox(self) -> str:
        return self._joined.sandbox

    @property
    def status(self) -> ReplayStatus:
        """The newest that was heard of."""
        return self._feed.status or self._joined

    async def pause(self) -> ReplayStatus:
        return await self._order(orders.PauseReplay(replay=self.id))

    async def resume(self, speed: float | None = None) -> ReplayStatus:
        return await self._order(orders.ResumeReplay(replay=self.id, speed=speed))

    async def set_speed(self, speed: float) -> ReplayStatus:
        """From now on. One that is paused stays so."""
        if (await self._asked()).playing == Playing.PAUSED:
            return await self._order(orders.PauseReplay(replay=self.id, speed=speed))
        return await self.resume(speed)

    async def seek(self, *, sequence: int | None = None, time: datetime.datetime | None = None) -> ReplayStatus:
        """To just before the first event there. A new pass begins."""
        return await self._order(orders.SeekReplay(replay=self.id, sequence=sequence, time=time))

    async def step(self, events: int = 1) -> ReplayStatus:
        """Play so many at once, and be paused."""
        return await self._order(orders.StepReplay(replay=self.id, events=events))

    async def stop(self) -> ReplayStatus:
        return await self._order(orders.StopReplay(replay=self.id))

    async def __aiter__(self) -> AsyncIterator[Played]:
        """What is played, until the replay ends or is stopped; within a pass nothing twice, and nothing left out.

        What a lost connection swallowed is read from the log. A replay that is sought in after its end can be
        iterated over again.
        """
        while True:
            item = await self._feed.next(SILENCE_S)
            if item is None:
                self._feed.reset()
                status = await self._asked()
                async for event in self._missed(status):
                    yield event
                if status.playing in OVER:
                    return
            elif isinstance(item, Heard):
                if played := self._passed(item):
                    yield played
            elif item.playing in OVER and item.passes >= self.status.passes:
                return

    async def _missed(self, status: ReplayStatus) -> AsyncIterator[Played]:
        """What was played while nothing could be heard, as far as it belongs to the same pass."""
        passes, position = self._at
        if status.passes == passes and status.position > position:
            view = await view_of(self._bus, self.sandbox)
            filters = subjects.typed(self.sandbox, status.types)
            async for entry in view.read(filters, position + 1, end=status.position):
                if event := self._passed(Heard(entry.seq, passes, entry.subject, entry.data)):
                    yield event
        self._at = max(self._at, (status.passes, status.position))

    def _passed(self, heard: Heard) -> Played | None:
        """None for what came before: also what an earlier pass has left behind."""
        if (heard.passes, heard.sequence) <= self._at:
            return None
        self._at = (heard.passes, heard.sequence)
        return Played(heard.sequence, heard.passes, heard.subject, codec.decode_head(heard.data), heard.data)

    async def _asked(self) -> ReplayStatus:
        return (await patiently_joined(self._bus, self.id, screens=False)).status

    async def _order(self, order: Order) -> ReplayStatus:
        """Returns once it is obeyed. Raises why it is not."""
        self._feed.told.clear()
        command = await publish(self._bus, subjects.ANY_NODE, self.sandbox, order)
        return await _obeyed(self._bus, self._feed, self.id, self.sandbox, command)


async def patiently_joined(bus: Bus, replay: str, *, screens: bool) -> JoinedReplay:
    """Asks until somebody answers. Raises `Invalid` for a replay that is not there."""
    question = GetReplay(replay=replay, screens=screens)
    while True:
        try:
            await bus.wait_connected()
            answer: JoinedReplay = await ask(bus, subjects.state_rpc("replay"), question, ANSWERS["replay"])
            return answer
        except Unavailable:
            if bus.client.is_closed:
                raise
            await asyncio.sleep(ASK_AGAIN_S)


async def _obeyed(bus: Bus, feed: Feed, replay: str, sandbox: str, command: str) -> ReplayStatus:
    refused = asyncio.ensure_future(_refusal(bus, sandbox, command))
    told = asyncio.ensure_future(_told(bus, feed, replay, command))
    try:
        await asyncio.wait([refused, told], return_when=asyncio.FIRST_COMPLETED)
        if told.done():
            return told.result()
        refused.result()
        raise ClocheError(f"the log ended before command {command!r} was obeyed")
    finally:
        for each in (refused, told):
            each.cancel()
        await asyncio.gather(refused, told, return_exceptions=True)


async def _refusal(bus: Bus, sandbox: str, command: str) -> None:
    """Raises the reason once the command was given up."""
    filters = subjects.events_of(sandbox, family=subjects.DEAD_LETTER, scope=command)
    async for entry in reader.read(bus, filters, follow=True):
        raise_if_given_up(codec.decode_head(entry.data), command)


async def _told(bus: Bus, feed: Feed, replay: str, command: str) -> ReplayStatus:
    """The first status after the command was obeyed."""
    while True:
        try:
            async with asyncio.timeout(SILENCE_S):
                while feed.status is None or command not in feed.status.orders:
                    feed.told.clear()
                    await feed.told.wait()
                return feed.status
        except TimeoutError:
            pass
        try:
            status = (await patiently_joined(bus, replay, screens=False)).status
        except Invalid:
            # Not yet, or not any more: if it is refused, the log says so.
            continue
        if command in status.orders:
            return status


@contextlib.asynccontextmanager
async def joined(buses: Sequence[Bus], replay: str) -> AsyncIterator[Replay]:
    """In whichever partition it is. Raises `Invalid` for a replay that is not there."""
    bus = buses[0] if len(buses) == 1 else await _whose(buses, replay)
    feed = Feed(bus, replay)
    await feed.open()
    try:
        yield Replay(bus, feed, await patiently_joined(bus, replay, screens=True))
    finally:
        await feed.aclose()


@contextlib.asynccontextmanager
async def started(bus: Bus, sandbox: str, order: orders.StartReplay, *, keep: bool) -> AsyncIterator[Replay]:
    """Raises why it cannot be started."""
    replay = new_id("r")
    feed = Feed(bus, replay)
    await feed.open()
    try:
        await publish(bus, subjects.ANY_NODE, sandbox, order, id=replay)
        status = await _obeyed(bus, feed, replay, sandbox, replay)
        # As it was before its first event, whatever was played since.
        before = JoinedReplay(status=_at_beginning(status))
        followed = Replay(bus, feed, before)
        try:
            yield followed
        finally:
            if not keep and followed.status.playing not in OVER:
                with contextlib.suppress(TimeoutError, ClocheError):
                    async with asyncio.timeout(LEAVING_S):
                        await publish(bus, subjects.ANY_NODE, sandbox, orders.StopReplay(replay=replay))
    finally:
        await feed.aclose()


def _at_beginning(status: ReplayStatus) -> ReplayStatus:
    return replace(status, position=status.first_sequence - 1, time=None, passes=1)


async def listed(bus: Bus, sandbox: str | None = None) -> ReplayList:
    """Those that are under way, and those that ended within the last minutes. Raises `Unavailable`."""
    answer: ReplayList = await ask(bus, subjects.state_rpc("replays"), ListReplays(sandbox=sandbox), ANSWERS["replays"])
    return answer


async def all_listed(buses: Iterable[Bus], sandbox: str | None) -> ReplayList:
    """As `listed`, of every partition."""
    answers = await asyncio.gather(*(listed(bus, sandbox) for bus in buses))
    return ReplayList(replays=tuple(each for answer in answers for each in answer.replays))


async def _whose(buses: Sequence[Bus], replay: str) -> Bus:
    for bus in buses:
        with contextlib.suppress(Invalid):
            await patiently_joined(bus, replay, screens=False)
            return bus
    raise Invalid(f"there is no replay {replay!r}")


def start_order(
    *,
    speed: float,
    start: int | datetime.datetime,
    end: int | datetime.datetime | None,
    max_idle_ms: int | None,
    types: Sequence[str],
    loop: bool,
    paused: bool,
) -> orders.StartReplay:
    return orders.StartReplay(
        speed=speed,
        from_sequence=start if isinstance(start, int) else 1,
        from_time=None if isinstance(start, int) else start,
        to_sequence=end if isinstance(end, int) else None,
        to_time=end if isinstance(end, datetime.datetime) else None,
        max_idle_ms=max_idle_ms,
        types=tuple(types),
        loop=loop,
        paused=paused,
    )
