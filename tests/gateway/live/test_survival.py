"""Whatever dies, whoever follows ends with everything, in order."""

import asyncio
import contextlib
import random
from pathlib import Path

import msgspec
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from tests.gateway.rig import Gateway, gateway_in

CLIENTS = 50
OF_ALL = 20
"""Of them follow the events of all sandboxes, half of those by its name."""
KILLED = (
    ("gateway",),
    ("nats",),
    ("executor", "agent"),
    ("gateway",),
    ("replay", "guardian"),
    ("nats",),
    ("spawner", "health_monitor"),
    ("gateway",),
    ("file_watcher", "egress"),
)
LINES = 1500
PRINT = f"for i in $(seq 1 {LINES}); do echo line $i $(head -c 2000 /dev/zero | tr '\\0' x); sleep 0.01; done"
AGAIN_S = 0.05


class _Read(msgspec.Struct):
    type: str
    sequence: int = 0
    event_type: str = ""
    sandbox_id: str | None = None
    code: str = ""


_frames = msgspec.json.Decoder(_Read)


class Client:
    """Reconnects for ever, and asks for what comes behind the last event that it has."""

    def __init__(self, gateway: Gateway, sandbox: str, place: str) -> None:
        self._gateway = gateway
        self._sandbox = sandbox
        self._place = place
        self._last = 0
        self.sequences: list[int] = []
        self.connections = 0

    async def follow(self) -> None:
        """Until the sandbox is removed."""
        while True:
            try:
                if await self._read():
                    return
            except (ConnectionClosed, InvalidHandshake, OSError, TimeoutError):
                await asyncio.sleep(AGAIN_S)

    async def _read(self) -> bool:
        url = f"ws://127.0.0.1:{self._gateway.port}/ws/{self._place}from={self._last + 1}"
        headers = {"authorization": f"Bearer {self._gateway.token()}"}
        async with connect(
            url, additional_headers=headers, compression=None, proxy=None, ping_interval=None, max_size=None
        ) as connection:
            self.connections += 1
            while True:
                frame = _frames.decode(await connection.recv(decode=False))
                assert frame.type != "error", frame
                if frame.type != "event":
                    continue
                assert frame.sequence > self._last
                self._last = frame.sequence
                if frame.sandbox_id == self._sandbox:
                    self.sequences.append(frame.sequence)
                    if frame.event_type == "sandbox.removed":
                        return True


async def _kill(gateway: Gateway, name: str) -> None:
    if name == "nats":
        gateway.node.kill_server()
    else:
        await gateway.node.restart(name)


async def _kill_at_random(gateway: Gateway) -> None:
    chance = random.Random(9)
    for names in KILLED:
        await asyncio.sleep(chance.uniform(0.2, 1.0))
        await asyncio.gather(*(_kill(gateway, name) for name in names))


async def test_fifty_followers_miss_nothing_while_gateway_nats_and_services_are_killed(tmp_path: Path) -> None:
    async with gateway_in(tmp_path, "agent", "guardian") as gateway:
        assert {name for names in KILLED for name in names} == {*gateway.node.services, "nats"}
        sandbox = await gateway.cloche.create()
        places = ["events?", f"events?sandboxes={sandbox.id}&"] * (OF_ALL // 2)
        places += [f"sandboxes/{sandbox.id}?"] * (CLIENTS - OF_ALL)
        clients = [Client(gateway, sandbox.id, place) for place in places]
        following = [asyncio.create_task(client.follow()) for client in clients]
        try:
            execution = await sandbox.start(PRINT)
            await _kill_at_random(gateway)
            result = await execution.wait()
            assert result.exit_code == 0
            assert result.stdout.count(b"\n") == LINES
            await sandbox.remove()
            async with asyncio.timeout(120):
                await asyncio.gather(*following)
        finally:
            for task in following:
                task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.gather(*following, return_exceptions=True)
        stored = [event.sequence async for event in sandbox.events()]
        ends = next(i for i, s in enumerate(stored) if s == clients[0].sequences[-1])
        for client in clients:
            assert client.sequences == stored[: ends + 1]
            assert client.connections > 1
