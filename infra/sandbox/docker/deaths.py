"""Noticing at once that a container has ended, also when the engine was away meanwhile."""

import asyncio
import logging
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Literal, NamedTuple

from contracts.errors import ClocheError
from contracts.ids import SandboxId
from infra.docker.containers import ContainerInfo, Containers
from infra.docker.engine import Engine
from infra.docker.events import EngineEvent, open_events
from infra.docker.instance import instance_of
from infra.sandbox.docker.planning import HOME_LABEL

logger = logging.getLogger(__name__)

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 2.0
OOM_NEAR_NS = 5_000_000_000
"""An older one killed some other process of the container."""
SIGNALLED = 128
KILLED = SIGNALLED + signal.SIGKILL
ENGINE_LOST_IT = 255

Cause = Literal["exit", "oom", "killed", "unknown"]


class Life(NamedTuple):
    sandbox: SandboxId
    container: str
    instance: str


class Death(NamedTuple):
    life: Life
    cause: Cause
    detail: str


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
    """Follows one engine for one listener, across restarts of the engine."""

    def __init__(self, engine: Engine, home: str, lives: Lives) -> None:
        self._engine = engine
        self._containers = Containers(engine)
        self._home = home
        self._lives = lives
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
            except ClocheError as error:
                logger.info("listening to the engine again in a moment: %s", error.message)
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE_S)

    async def _survey(self) -> list[Death]:
        """Those that ended while nobody listened. An engine that is away says nothing about its containers."""
        found: list[Death] = []
        for life in self._lives.all():
            info = await self._containers.inspect(life.container)
            if not _lives_on(info, life) and self._is_news(life):
                found.append(Death(life, *_found_dead(info)))
        return found

    async def _explain(self, event: EngineEvent) -> Death | None:
        life = self._lives.of(event.container) if event.action in {"die", "destroy"} else None
        news = life is not None and self._is_news(life)
        death = Death(life, await self._cause(event), _words(event)) if life is not None and news else None
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

    async def _cause(self, event: EngineEvent) -> Cause:
        if event.exit_code != KILLED or event.container in self._signalled:
            return _cause_of(event.exit_code)
        return "oom" if await self._was_oom(event) else "killed"

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


def _cause_of(code: int | None) -> Cause:
    if code is None:
        return "unknown"
    return "killed" if code > SIGNALLED else "exit"


def _words(event: EngineEvent) -> str:
    if event.exit_code is None:
        return "its container was removed"
    return f"the container's first process ended with code {event.exit_code}"


def _found_dead(info: ContainerInfo | None) -> tuple[Cause, str]:
    if info is None:
        return "unknown", "its container is gone, and nobody was told when"
    if info.state.is_up:
        return "unknown", "its container was started again, and nobody was told when it ended"
    code = info.state.exit_code
    words = f"found dead when the engine answered: its first process had ended with code {code}"
    if code == ENGINE_LOST_IT:
        return "unknown", f"{words}, which is what the engine says when it does not know"
    oom = code == KILLED and info.state.oom_killed
    return ("oom" if oom else _cause_of(code)), words
