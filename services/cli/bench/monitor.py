"""What it costs to watch over many sandboxes: a monitor of its own, on a node of its own."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil

from contracts import codec, subjects
from contracts.errors import Unavailable
from contracts.events.node import NodeJoined
from contracts.events.sandbox import SandboxCreated, SandboxCreating, SandboxStarted
from contracts.spec import Isolation, Resources, SandboxSpec
from infra.access import open_as
from infra.bus import reader
from infra.bus.connection import Bus
from infra.embedded import secrets
from infra.journal import Journal
from infra.node_identity import make_identity
from infra.nodes import NodeLog
from infra.sandbox.base import CreateRequest, Provider
from infra.sandbox.providers import load_provider
from services.cli.bench.figure import Figure
from services.cli.bench.rig import Rig
from services.cli.bench.sizes import Sizes

NODE = "watched"
AT_ONCE = 4
SPEC = SandboxSpec(isolation=Isolation.LOCAL, resources=Resources(memory_mb=512, timeout_ms=86_400_000))
MB = 1024 * 1024


async def monitor(rig: Rig, sizes: Sizes) -> list[Figure]:
    """CPU and memory of the monitor's process with so many sandboxes in which nothing happens."""
    data = rig.settings.data.parent / NODE
    figures: list[Figure] = []
    async with (
        open_as(rig.settings, "spawner") as bus,
        load_provider(Isolation.LOCAL, data) as provider,
    ):
        journal, made = Journal(bus, service="spawner", node=NODE), 0
        await _join(journal, NodeLog(bus), data)
        async with _monitor(rig, data) as process, _removed(provider):
            for count in rig.progress.track(sizes.watched, description="monitor"):
                await _make(journal, provider, range(made, count))
                made = max(made, count)
                await _all_seen(bus, count)
                figures += await _figures(process, count, sizes.watched_s)
    return figures


@asynccontextmanager
async def _monitor(rig: Rig, data: Path) -> AsyncIterator[psutil.Process]:
    where = {
        "CLOCHE_DATA": str(data),
        "CLOCHE_NODE": NODE,
        "CLOCHE_URL": rig.admin.url,
        "CLOCHE_CREDS": str(secrets.directory(rig.settings.data)),
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "services.health_monitor", stderr=asyncio.subprocess.PIPE, env={**os.environ, **where}
    )
    assert process.stderr is not None
    try:
        async for line in process.stderr:
            if line.endswith(b": ready\n"):
                break
        else:
            raise Unavailable("the monitor ended before it was ready")
        yield psutil.Process(process.pid)
    finally:
        process.kill()
        await process.wait()


async def _join(journal: Journal, nodes: NodeLog, data: Path) -> None:
    """As the spawner does it: a monitor watches nothing before the log says whose its node's name is."""
    await asyncio.to_thread(data.mkdir, mode=0o700, parents=True, exist_ok=True)
    identity = await asyncio.to_thread(make_identity, data)
    joined = NodeJoined(node=NODE, tiers=(Isolation.LOCAL,), identity=identity)
    await nodes.tell(journal, NODE, joined, identity=identity)


async def _make(journal: Journal, provider: Provider, numbers: range) -> None:
    places = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> None:
        async with places:
            await _one(journal, provider, f"{NODE}-{number}")

    await asyncio.gather(*(one(number) for number in numbers))


async def _one(journal: Journal, provider: Provider, sandbox: str) -> None:
    """As the spawner does it, without the orders."""
    begun = await journal.move(sandbox, SandboxCreating(spec=SPEC, isolation=Isolation.LOCAL, node=NODE), expected=0)
    created = await provider.create(CreateRequest(sandbox=sandbox, node=NODE, spec=SPEC))
    fact = SandboxCreated(node=NODE, isolation=Isolation.LOCAL, workspace=created.workspace)
    made = await journal.move(sandbox, fact, expected=begun)
    started = await provider.start(sandbox)
    await journal.move(sandbox, SandboxStarted(instance=started.instance), expected=made)


async def _all_seen(bus: Bus, count: int) -> None:
    if not count:
        return
    healthy: set[str] = set()
    async for entry in reader.read(bus, subjects.events_of(family="health", kind="healthy")[:1], follow=True):
        head = codec.decode_head(entry.data)
        if head.node == NODE:
            healthy.add(head.sandboxid)
        if len(healthy) == count:
            return


async def _figures(process: psutil.Process, count: int, seconds: float) -> list[Figure]:
    before = process.cpu_times()
    await asyncio.sleep(seconds)
    after = process.cpu_times()
    spent = (after.user + after.system) - (before.user + before.system)
    what = f"health monitor, {count} local sandboxes"
    return [
        Figure(what=f"{what}: CPU", value=spent / seconds * 100, unit="% of one"),
        Figure(what=f"{what}: resident memory", value=process.memory_info().rss / MB, unit="MB"),
    ]


@asynccontextmanager
async def _removed(provider: Provider) -> AsyncIterator[None]:
    try:
        yield
    finally:
        for sandbox in await provider.sandboxes():
            await provider.remove(sandbox)
