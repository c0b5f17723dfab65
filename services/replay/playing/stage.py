"""All paced replays of this service: begins them, takes over those whose player is gone, forgets what is over."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

from msgspec.structs import replace

from contracts import codec
from contracts.errors import ClocheError, Conflict, Invalid, SandboxResourceLimitExceeded, Unavailable
from contracts.replays import GetReplay, JoinedReplay, ListReplays, Replaying, ReplayList
from contracts.screens import Screen
from infra import clock
from infra.bus.connection import Bus
from infra.bus.kv import Bucket
from infra.bus.patience import patiently
from infra.ids import new_id
from infra.log.choosing import view_of
from services.replay.handlers import Answers
from services.replay.playing.player import Player
from services.replay.playing.record import Directive, Record
from services.replay.playing.shelf import Held, Shelf
from services.replay.playing.turns import Turns

logger = logging.getLogger(__name__)

TICK_S = 1.0
LEASE_S = 3.0
"""A player that gives no sign of life for so long is gone."""
FORGET_S = 300.0
"""After its end."""
SAVES = 50
"""Positions that are written at a time: with very many replays each is written less often."""
INBOX = 100
LEAVING_S = 2.0
ANSWER_S = 5.0
ANSWER_BYTES = 700_000
"""An answer stays below what one message may hold."""
MOST_LISTED = 1000

ScreensAt = Callable[[str, int], Awaitable[tuple[Screen, ...]]]
"""The screens of a sandbox's commands at a sequence: of those that ran, and of the last that ended."""


class Ranged(Protocol):
    def __call__(self, owner: str, max_idle_ms: int, /) -> Record: ...


class Stage:
    def __init__(self, bus: Bus, bucket: Bucket, settings: Replaying, screens_at: ScreensAt) -> None:
        self._bus = bus
        self._settings = settings
        self._screens_at = screens_at
        self._owner = new_id("player")
        self._shelf = Shelf(bus, bucket)
        self._players: dict[str, Player] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._open = asyncio.Event()
        self._turns = Turns()
        self._beginning = asyncio.Lock()
        self._waiting: dict[str, list[tuple[int, asyncio.Future[Record]]]] = {}

    def answers(self) -> Answers:
        return {"replay": self._replay, "replays": self._replays}

    async def run(self) -> None:
        """For ever. What it plays is free for others when it is cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                tasks.create_task(self._shelf.watch(self._noticed))
                tasks.create_task(self._watch_gaps())
                self._open.set()
                while True:
                    await asyncio.sleep(TICK_S)
                    await self._tick()
        finally:
            with contextlib.suppress(ClocheError, TimeoutError):
                async with asyncio.timeout(LEAVING_S):
                    await self._leave()

    async def begin(self, replay: str, make: Ranged) -> None:
        """Start one, unless it was started before. Raises `SandboxResourceLimitExceeded` for one too many."""
        await self._open.wait()
        if await self._shelf.find(replay) is not None:
            return
        async with self._beginning:
            await self._make_room()
            await self._shelf.beat(self._owner)
            held = await self._shelf.create(make(self._owner, self._settings.max_idle_ms))
        if held is not None:
            self._play(held)

    async def order(self, sandbox: str, replay: str, directive: Directive) -> None:
        """Raises `Invalid` for a replay that is not there, is another sandbox's or was stopped."""
        await self._open.wait()

        def add(record: Record) -> Record:
            _check(record, sandbox)
            if record.has(directive.order):
                return record
            if record.stopped:
                raise Invalid(f"replay {replay!r} was stopped: start another")
            if len(record.inbox) >= INBOX:
                raise Conflict(f"replay {replay!r} has {INBOX} orders that it has not obeyed yet")
            return replace(record, inbox=(*record.inbox, directive))

        held = await self._shelf.change(replay, add)
        if held is None and (player := self._players.get(replay)) is not None:
            # Its bucket was lost.
            await player.save()
            held = await self._shelf.change(replay, add)
        if held is None:
            raise Invalid(f"there is no replay {replay!r}: it was never started, or is over and forgotten")
        self._noticed(replay, held)

    async def record_of(self, replay: str) -> Record | None:
        """As of now, also where another service plays it. Raises `Unavailable`."""
        if (player := self._players.get(replay)) is not None:
            return player.record
        token = new_id("ask")
        held = await self._shelf.change(
            replay, lambda record: record if record.over_at else replace(record, asked=token)
        )
        if held is None or held.record.over_at is not None:
            return None if held is None else held.record
        return await self._answer(replay, held.revision)

    async def _answer(self, replay: str, revision: int) -> Record:
        """What its player writes next is newer than the question."""
        answer: asyncio.Future[Record] = asyncio.get_running_loop().create_future()
        waiting = self._waiting.setdefault(replay, [])
        waiting.append((revision, answer))
        try:
            async with asyncio.timeout(ANSWER_S):
                return await answer
        except TimeoutError:
            raise Unavailable(f"whoever plays {replay!r} does not answer: ask again") from None
        finally:
            waiting.remove((revision, answer))
            if not waiting:
                self._waiting.pop(replay, None)

    async def _replay(self, query: GetReplay) -> JoinedReplay:
        record = await self.record_of(query.replay)
        if record is None:
            raise Invalid(f"there is no replay {query.replay!r}: it was never started, or is over and forgotten")
        screens = await self._screens_at(record.sandbox, record.position) if query.screens else ()
        return JoinedReplay(status=record.status, screens=_within(screens))

    async def _replays(self, query: ListReplays) -> ReplayList:
        newest = {replay: held.record for replay, held in self._shelf.held.items()}
        newest |= {replay: player.record for replay, player in self._players.items()}
        chosen = [record.status for record in newest.values() if query.sandbox in (None, record.sandbox)]
        return ReplayList(replays=tuple(chosen[:MOST_LISTED]))

    def _noticed(self, replay: str, held: Held | None) -> None:
        player = self._players.get(replay)
        if held is None:
            if player is not None:
                player.lose()
            return
        if player is not None:
            player.noticed(held)
        if held.record.asked == held.record.answered:
            for revision, answer in self._waiting.get(replay, []):
                if held.revision > revision and not answer.done():
                    answer.set_result(held.record)

    def _play(self, held: Held) -> None:
        assert self._tasks is not None
        self._tasks.create_task(self._perform(held))

    async def _perform(self, held: Held) -> None:
        """One replay that cannot go on is stopped, and the others go on."""
        replay = held.record.replay
        if replay in self._players or held.record.stopped:
            return
        try:
            view = await patiently(self._bus, lambda bus: view_of(bus, held.record.sandbox))
            player = Player(self._bus, view, self._shelf, held, self._turns)
            self._players[replay] = player
            # Orders may have come meanwhile.
            player.noticed(self._shelf.held.get(replay, held))
            await player.run()
        except Exception:
            logger.exception("replay %s cannot go on", replay)
            with contextlib.suppress(ClocheError):
                await self._shelf.change(replay, self._given_up)
        finally:
            self._players.pop(replay, None)

    def _given_up(self, record: Record) -> Record:
        return replace(record, stopped=True, over_at=clock.now()) if record.owner == self._owner else record

    async def _tick(self) -> None:
        if any(held.record.owner == self._owner for held in self._shelf.held.values()):
            await self._shelf.beat(self._owner)
        for player in list(self._players.values()):
            await player.sign_of_life()
        dirty = [
            replay for replay, player in self._players.items() if player.is_dirty or replay not in self._shelf.held
        ]
        for replay in dirty[:SAVES]:
            if replay in self._players:
                # To the end of the line, so that each has its turn.
                player = self._players.pop(replay)
                self._players[replay] = player
                await player.save()
        await self._sweep()

    async def _watch_gaps(self) -> None:
        """For ever, and not within a tick: the log may be slow to answer, or away, while the replays' bucket is not."""
        while True:
            for replay, player in list(self._players.items()):
                if await player.look_for_gaps() and self._players.get(replay) is player:
                    await player.tell()
            await asyncio.sleep(TICK_S)

    async def _sweep(self) -> None:
        for held in list(self._shelf.held.values()):
            record = held.record
            try:
                if record.owner != self._owner and self._shelf.silence_s(record.owner) > LEASE_S:
                    await self._take_over(held)
                elif record.owner == self._owner and _is_old(record):
                    await self._drop(held)
            except (Conflict, Unavailable) as error:
                logger.debug("%s: %s", record.replay, error.message)

    async def _take_over(self, held: Held) -> None:
        gone = held.record.owner
        await self._shelf.beat(self._owner)
        taken = await self._shelf.save(replace(held.record, owner=self._owner), held.revision)
        self._play(taken)
        if all(other.record.owner != gone for other in self._shelf.held.values()):
            await self._shelf.leave(gone)

    async def _make_room(self) -> None:
        """What is over makes room for what begins."""
        most = self._settings.max_replays
        while len(self._shelf.held) >= most:
            over = [held for held in self._shelf.held.values() if held.record.over_at is not None]
            if not over:
                raise SandboxResourceLimitExceeded(
                    f"{most} replays are under way, as many as replay.max_replays allows: stop one, or set it higher"
                )
            oldest = min(over, key=lambda held: held.record.over_at or clock.now())
            await self._drop(oldest)

    async def _drop(self, held: Held) -> None:
        replay = held.record.replay
        try:
            await self._shelf.forget(held)
        except Conflict:
            await self._shelf.refresh(replay)
            return
        self._noticed(replay, None)

    async def _leave(self) -> None:
        for player in list(self._players.values()):
            if player.is_dirty:
                await player.save()
        await self._shelf.leave(self._owner)


def _check(record: Record, sandbox: str) -> None:
    if record.sandbox != sandbox:
        raise Invalid(f"replay {record.replay!r} is of another sandbox, {record.sandbox!r}")


def _is_old(record: Record) -> bool:
    return record.over_at is not None and (clock.now() - record.over_at).total_seconds() > FORGET_S


def _within(screens: tuple[Screen, ...]) -> tuple[Screen, ...]:
    """As many as one message may hold: the last are the newest."""
    kept: list[Screen] = []
    size = 0
    for screen in reversed(screens):
        size += len(codec.encode(screen))
        if size > ANSWER_BYTES:
            break
        kept.append(screen)
    return tuple(reversed(kept))
