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
KILLED = ("gateway", "nats", "executor", "gateway", "replay", "nats", "spawner", "gateway", "file_watcher")
LINES = 1500
PRINT = f"for i in $(seq 1 {LINES}); do echo line $i $(head -c 2000 /dev/zero | tr '\\0' x); sleep 0.01; done"
AGAIN_S = 0.05


class _Read(msgspec.Struct):
    type: str
    sequence: int = 0
    event_type: str = ""
    code: str = ""


_frames = msgspec.json.Decoder(_Read)


class Client:
    """Reconnects for ever, and asks for what comes behind the last event that it has."""

    def __init__(self, gateway: Gateway, sandbox: str) -> None:
        self._gateway = gateway
        self._sandbox = sandbox
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
        at = self.sequences[-1] + 1 if self.sequences else 1
        url = f"ws://127.0.0.1:{self._gateway.port}/ws/sandboxes/{self._sandbox}?from={at}"
        headers = {"authorization": f"Bearer {self._gateway.token()}"}
        async with connect(
            url, additional_headers=headers, compression=None, proxy=None, ping_interval=None, max_size=None
        ) as connection:
            self.connections += 1
            while True:
                frame = _frames.decode(await connection.recv(decode=False))
                assert frame.type != "error", frame
                if frame.type == "event":
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
    for name in KILLED:
        await asyncio.sleep(chance.uniform(0.2, 1.0))
        await _kill(gateway, name)


async def test_fifty_followers_miss_nothing_while_gateway_nats_and_services_are_killed(tmp_path: Path) -> None:
    async with gateway_in(tmp_path) as gateway:
        sandbox = await gateway.cloche.create()
        clients = [Client(gateway, sandbox.id) for _ in range(CLIENTS)]
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
