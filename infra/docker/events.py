"""What the engine tells of containers, as it happens."""

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress

import aiodocker
import aiohttp
import msgspec
from msgspec import Struct, field

from infra.docker.engine import ANY_HOST, ASK_S, Engine
from infra.docker.errors import Refused, asking

ACTIONS = ("die", "oom", "kill", "destroy")


class _Actor(Struct, frozen=True, kw_only=True, rename="pascal"):
    id: str = field(name="ID")
    attributes: dict[str, str] = {}


class EngineEvent(Struct, frozen=True, kw_only=True):
    action: str = field(name="Action")
    actor: _Actor = field(name="Actor")
    time_ns: int = field(name="timeNano", default=0)

    @property
    def container(self) -> str:
        return self.actor.id

    @property
    def exit_code(self) -> int | None:
        """Of a `die`; 128 + n for signal n."""
        code = self.actor.attributes.get("exitCode", "")
        return int(code) if code.isdigit() else None

    @property
    def process(self) -> str | None:
        """Of an `exec_die`: which exec."""
        return self.actor.attributes.get("execID")


def open_events(engine: Engine, label: str, value: str) -> AbstractAsyncContextManager[AsyncIterator[EngineEvent]]:
    """Events of containers with that label. Like `listen`."""
    return listen(engine.client, {"event": list(ACTIONS), "label": [f"{label}={value}"]})


@asynccontextmanager
async def listen(
    client: Callable[[], Awaitable[aiodocker.Docker]], wanted: dict[str, list[str]]
) -> AsyncIterator[AsyncIterator[EngineEvent]]:
    """Events of containers, from before this returns until the engine goes.

    Raises `Unavailable` when it is gone already; later the events just end.
    """
    # The engine answers before it listens to itself, so it is asked for what happened since just before.
    filters = msgspec.json.encode({"type": ["container"], **wanted}).decode()
    params = {"since": f"{time.time():.9f}", "filters": filters}
    async with asking("listen to the engine", ASK_S):
        session = (await client()).session
        endless = aiohttp.ClientTimeout(total=None, sock_connect=ASK_S)
        response = await session.get(f"{ANY_HOST}/events", params=params, timeout=endless)
    try:
        if not response.ok:
            raise Refused(response.status, (await response.text())[:1000])
        yield _read(response)
    finally:
        response.close()


async def _read(response: aiohttp.ClientResponse) -> AsyncIterator[EngineEvent]:
    while True:
        try:
            line = await response.content.readline()
        except (aiohttp.ClientError, OSError, ValueError):
            return
        if not line:
            return
        with suppress(msgspec.MsgspecError):
            yield msgspec.json.decode(line, type=EngineEvent)
