"""A follower over a real WebSocket."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec
from websockets.asyncio.client import ClientConnection, connect

from tests.gateway.rig import Gateway

Frame = dict[str, Any]


class Follower:
    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self.connected: Frame = {}
        self._held: list[Frame] = []

    async def next(self) -> Frame:
        if self._held:
            return self._held.pop(0)
        frame: Frame = msgspec.json.decode(await self.connection.recv(decode=False))
        return frame

    async def until(self, kind: str, **wanted: Any) -> Frame:
        """The next frame of a type, with fields of certain values; those before it are let go."""
        while True:
            frame = await self.next()
            if frame["type"] == kind and all(frame.get(key) == value for key, value in wanted.items()):
                return frame

    async def events_until(self, event_type: str) -> list[Frame]:
        """Every event up to the first of a type."""
        events: list[Frame] = []
        while not events or events[-1]["event_type"] != event_type:
            frame = await self.next()
            assert frame["type"] != "error", frame
            if frame["type"] == "event":
                events.append(frame)
        return events

    async def say(self, **frame: Any) -> None:
        await self.connection.send(msgspec.json.encode(frame).decode())

    async def order(self, command: str, **payload: Any) -> Frame:
        """What comes of it. What else is told meanwhile is still to be had."""
        await self.say(type="command", id=f"of {command}", command=command, payload=payload)
        meanwhile: list[Frame] = []
        while (frame := await self.next()).get("id") != f"of {command}":
            meanwhile.append(frame)
        self._held[:0] = meanwhile
        return frame


@contextlib.asynccontextmanager
async def following(
    gateway: Gateway, sandbox: str | None, token: str | None = None, **query: Any
) -> AsyncIterator[Follower]:
    """Of one sandbox, or of all where none is named."""
    path = "/ws/events" if sandbox is None else f"/ws/sandboxes/{sandbox}"
    asked = "&".join(f"{key.rstrip('_')}={value}" for key, value in query.items())
    url = f"{gateway.url.replace('http', 'ws')}{path}?token={token or gateway.token()}&{asked}"
    async with connect(url, max_size=None, compression=None, proxy=None, ping_interval=None) as connection:
        follower = Follower(connection)
        follower.connected = await follower.next()
        assert follower.connected["type"] == "connected"
        yield follower
