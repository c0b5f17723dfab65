"""Noticing at once that a container has ended, also when the engine was away meanwhile."""

import asyncio
import datetime
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import NamedTuple

import msgspec

from contracts.errors import ClocheError
from contracts.ids import SandboxId
from infra.docker.containers import ContainerInfo, Containers
from infra.docker.engine import Engine
from infra.docker.events import EngineEvent, open_events
from infra.docker.instance import instance_of
from infra.sandbox.base import End
from infra.sandbox.docker.observing import found_dead
from infra.sandbox.docker.planning import HOME_LABEL
from infra.sandbox.ends import KILLED, end_by_code

logger = logging.getLogger(__name__)

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 2.0
REMOVED = "what the engine told: only that the container was removed"
OOM_NEAR_NS = 5_000_000_000
"""An older one killed some other process of the container."""
LOST_SLACK = datetime.timedelta(seconds=2)
"""What ended so little before the engine was lost ended with it."""


class Life(NamedTuple):
    sandbox: SandboxId
    container: str
    instance: str


class Death(NamedTuple):
    life: Life
    end: End
    asked: bool


class Lives:
    """Which containers are known to have run, each under its last instance."""

    def __init__(self) -> None:
        self._by_container: dict[str, Life] = {}

    def note(self, life: Life) -> None:
        self._by_container[life.container] = life

    def of(self, container: str) -> Life | None:
        return self._by_container.get(container)

    def forget(self, life: Life) -> None:
        if self._by_container.get(life.container) == life:
            del self._by_container[life.container]

    def all(self) -> tuple[Life, ...]:
        return tuple(self._by_container.values())


class DeathWatch:
    """Follows one engine for one listener, across restarts of the engine. `was_asked`: by an order, to end."""

    def __init__(self, engine: Engine, home: str, lives: Lives, was_asked: Callable[[Life], Awaitable[bool]]) -> None:
        self._engine = engine
        self._containers = Containers(engine)
        self._home = home
        self._lives = lives
        self._was_asked = was_asked
        self._lost_at: datetime.datetime | None = None
        self._told: set[str] = set()
        self._oom_ns: dict[str, int] = {}
        self._signalled: set[str] = set()

    async def follow(self, note_lives: Callable[[], Awaitable[None]]) -> AsyncGenerator[Death]:
        """Endless. Each time that the engine is listened to anew, the dead are told first and new lives noted then."""
        pause = FIRST_PAUSE_S
        while True:
            try:
                async with open_events(self._engine, HOME_LABEL, self._home) as events:
                    for death in await self._survey():
                        yield death
                    await note_lives()
                    pause = FIRST_PAUSE_S
                    async for event in events:
                        if (explained := await self._explain(event)) is not None:
                            yield explained
                    self._lost_at = datetime.datetime.now(datetime.UTC)
            except ClocheError as error:
                logger.info("listening to the engine again in a moment: %s", error.message)
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE_S)

    async def _survey(self) -> list[Death]:
        """Those that ended while nobody listened. An engine that is away says nothing about its containers."""
        found: list[Death] = []
        for life in self._lives.all():
            info = await self._containers.inspect(life.container)
            asked = await self._was_asked(life)
            if not _lives_on(info, life) and self._is_news(life):
                found.append(Death(life, self._found(info), asked))
        return found

    def _found(self, info: ContainerInfo | None) -> End:
        end = found_dead(info)
        if info is None or info.state.is_up or end.cause == "oom" or self._lost_at is None:
            return end
        ended = _time(info.state.finished_at)
        if ended is None or ended < self._lost_at - LOST_SLACK:
            return end
        return End(cause="engine_lost", detail=f"its engine was lost; {end.detail}", exit_code=info.state.exit_code)

    async def _explain(self, event: EngineEvent) -> Death | None:
        life = self._lives.of(event.container) if event.action in {"die", "destroy"} else None
        death = None
        if life is not None and self._is_news(life):
            asked = await self._was_asked(life)
            death = Death(life, await self._end_of(event, asked=asked), asked)
        self._remember(event)
        return death

    def _is_news(self, life: Life) -> bool:
        if life.instance in self._told:
            return False
        self._told.add(life.instance)
        self._lives.forget(life)
        return True

    def _remember(self, event: EngineEvent) -> None:
        match event.action:
            case "oom":
                self._oom_ns[event.container] = event.time_ns
            case "kill":
                self._signalled.add(event.container)
            case _:
                self._oom_ns.pop(event.container, None)
                self._signalled.discard(event.container)

    async def _end_of(self, event: EngineEvent, *, asked: bool) -> End:
        code = event.exit_code
        if code is None:
            return End(cause="unknown", detail="its container was removed", looked_at=(REMOVED,))
        words = f"the container's first process ended with code {code}"
        if asked:
            return end_by_code(code, words)
        if event.container not in self._signalled:
            oom = code == KILLED and await self._was_oom(event)
            return end_by_code(code, words, out_of_memory=oom)
        if not await self._engine.takes_calls():
            return End(cause="engine_lost", detail=f"its engine ends, and ended it: {words}", exit_code=code)
        told = f"its engine was told to end it, by somebody else: {words}{await self._removal(event)}"
        return msgspec.structs.replace(end_by_code(code, told), cause="killed")

    async def _removal(self, event: EngineEvent) -> str:
        try:
            info = await self._containers.inspect(event.container)
        except ClocheError:
            return ""
        return "" if info is not None and info.state.status != "removing" else ", and to remove its container"

    async def _was_oom(self, event: EngineEvent) -> bool:
        seen = self._oom_ns.get(event.container)
        if seen is not None:
            return event.time_ns - seen < OOM_NEAR_NS
        try:
            info = await self._containers.inspect(event.container)
        except ClocheError:
            return False
        return info is not None and info.state.oom_killed


def _lives_on(info: ContainerInfo | None, life: Life) -> bool:
    return info is not None and info.state.is_up and instance_of(info.id, info.state.started_at) == life.instance


def _time(stamp: str) -> datetime.datetime | None:
    """The engine's, to the nanosecond: more than we can read."""
    whole, _, fraction = stamp.removesuffix("Z").partition(".")
    try:
        return datetime.datetime.fromisoformat(f"{whole}.{fraction[:6]:0<6}+00:00")
    except ValueError:
        return None
