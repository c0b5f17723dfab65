"""Two nodes of one NATS that differ in labels and room, with the services that the tests need."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from infra.bus.connection import Bus
from infra.client import Cloche, Sandbox
from infra.keeper.client import KeeperClient
from tests.bus.servers import nats_in
from tests.recovery.two_nodes import ONCE, OneOfTwo
from tests.services.node import SERVICES

CONFIG = """
max_sandboxes = {most}
[node]
labels = {{ name = "{name}", kind = "test" }}
vitals_s = 0.3
wait_s = {wait_s}
lost_after_s = {lost_after_s}
[intervals]
health_s = 0.5
[sandbox.network]
mode = "none"
"""


class Stoppable(OneOfTwo):
    stopped: Sequence[int] = ()


class Pair(NamedTuple):
    n1: Stoppable
    n2: Stoppable
    cloche: Cloche
    admin: Bus


@asynccontextmanager
async def pair_in(
    place: Path, *, most: int = 100, wait_s: float = 30.0, lost_after_s: float = 0.0, without: tuple[str, ...] = ()
) -> AsyncIterator[Pair]:
    async with nats_in(place / "hub", nodes=("n1", "n2")) as server:
        nodes = []
        for name in ("n1", "n2"):
            data = place / name
            data.mkdir()
            config = CONFIG.format(most=most, name=name, wait_s=wait_s, lost_after_s=lost_after_s)
            (data / "cloche.toml").write_text(config)
            names = tuple(each for each in SERVICES if each not in without and (each != ONCE or name == "n1"))
            nodes.append(Stoppable(name, data, server, names))
        try:
            await asyncio.gather(*(node.start() for node in nodes))
            async with Cloche.connect(nodes[0].settings) as cloche:
                yield Pair(nodes[0], nodes[1], cloche, await server.connect("admin"))
        finally:
            for node in nodes:
                go_on(node)
                await node.aclose()


async def stop(node: Stoppable) -> None:
    """As a machine that hangs: every service and the keeper, in the middle of whatever they do."""
    node.stopped = [*(service.pid for service in node.services.values()), await _keeper_of(node)]
    _signal(node, signal.SIGSTOP)


def go_on(node: Stoppable) -> None:
    _signal(node, signal.SIGCONT)
    node.stopped = []


def _signal(node: Stoppable, number: int) -> None:
    for pid in node.stopped:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


async def _keeper_of(node: Stoppable) -> int:
    async with await KeeperClient.connect(node.data) as keeper:
        return (await keeper.hello()).pid


async def create_on(pair: Pair, node: Stoppable, name: str, spec: dict[str, Any] | None = None) -> Sandbox:
    """On that node, without asking for it: the other sits this one out."""
    other = pair.n1 if node is pair.n2 else pair.n2
    await other.services["spawner"].kill()
    sandbox = await pair.cloche.create(spec, id=name)
    await other.services["spawner"].start()
    assert sandbox.state.node == node.name
    return sandbox
