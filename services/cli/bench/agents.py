"""What is said to an agent: how soon it gets to hear it, and how soon it stops."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import msgspec

from contracts.commands.agent import InterruptAgent, MessageAgent
from contracts.events import agent as facts
from contracts.message import Order
from infra.bus.connection import Bus
from infra.bus.publisher import append
from infra.client import Sandbox
from infra.client.agent_run import AgentRun
from infra.client.orders import publish
from infra.ids import new_id
from services.cli.bench.bare import SCRATCH, bubblewrap, drop_scratch_stream, make_scratch_stream
from services.cli.bench.figure import Aim, Figure
from services.cli.bench.percentile import percentile
from services.cli.bench.rig import Rig
from services.cli.bench.sizes import Sizes

AIMS_MS = {50: 20, 99: 100}
AIM_STOPPED_MS = 1000
READY, TREE = "ready", "touch {0}; sleep 600 & sleep 600"
TREES = {"that ends at SIGTERM": TREE, "that ignores SIGTERM": f"trap '' TERM; {TREE}"}


async def agents(rig: Rig, sizes: Sizes) -> list[Figure]:
    """By the runtime `script`, so that no model is measured."""
    sandbox = await rig.cloche.create()
    figures = await _delivered(rig, sandbox, sizes.interventions)
    for how, tree in TREES.items():
        figures += await _stopped(rig, sandbox, how, tree, sizes.interrupts)
    await sandbox.remove()
    return figures


async def _delivered(rig: Rig, sandbox: Sandbox, count: int) -> list[Figure]:
    ours: list[float] = []
    stored: list[float] = []
    commands: list[float] = []
    run = await _play(sandbox, {"repeat": count, "steps": [{"wait": {"message": True}}]})
    track = rig.progress.add_task("intervention → delivered", total=count)
    async with _round_trips(rig.admin) as round_trip:
        began = 0.0
        async for event in run.events(follow=True):
            match event.fact:
                case facts.AgentToolUse():
                    stored.append(await _ms(round_trip()))
                    commands.append(await _ms(sandbox.run(["true"])))
                    began = time.perf_counter()
                    await _say(rig, sandbox, MessageAgent(text="look here", run=run.id))
                case facts.AgentDelivered():
                    ours.append((time.perf_counter() - began) * 1000)
                    rig.progress.advance(track)
    return [
        Figure(
            what=f"intervention published → delivered into a turn, p{percent}",
            value=percentile(ours, percent),
            unit="ms",
            bare=percentile(bare, percent),
            beside=beside,
            aim=Aim(below=aim) if bare is stored else None,
        )
        for percent, aim in AIMS_MS.items()
        for bare, beside in ((stored, "stored by NATS → seen"), (commands, "exec round trip"))
    ]


async def _stopped(rig: Rig, sandbox: Sandbox, how: str, tree: str, count: int) -> list[Figure]:
    ours: list[float] = []
    bare: list[float] = []
    for _ in rig.progress.track(range(count), description="interrupt → stopped"):
        await sandbox.run(["rm", "-f", READY])
        run = await _play(sandbox, {"run": tree.format(READY)})
        await _begun(sandbox)
        began = time.perf_counter()
        await _say(rig, sandbox, InterruptAgent(run=run.id))
        async for event in run.events(follow=True):
            if isinstance(event.fact, facts.AgentInterrupted):
                ours.append((time.perf_counter() - began) * 1000)
                break
        await sandbox.agent.stop(wait=True)
        bare.append(await _killed_ms())
    return [
        Figure(
            what=f"interrupt published → a tree {how} has ended, p{percent}",
            value=percentile(ours, percent),
            unit="ms",
            bare=percentile(bare, percent),
            beside="SIGKILL to bwrap … sleep",
            aim=Aim(below=AIM_STOPPED_MS),
        )
        for percent in AIMS_MS
    ]


async def _play(sandbox: Sandbox, step: dict[str, object]) -> AgentRun:
    script = msgspec.json.encode([step]).decode()
    return await sandbox.agent.start("script", "measure", options={"script": script})


async def _say(rig: Rig, sandbox: Sandbox, order: Order) -> None:
    await publish(rig.cloche.bus, sandbox.state.node, sandbox.id, order)


async def _begun(sandbox: Sandbox) -> None:
    await sandbox.run(f"until [ -e {READY} ]; do sleep 0.01; done")


@asynccontextmanager
async def _round_trips(admin: Bus) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """Of one message: it is stored as the log is, and a subscriber has it."""
    seen: asyncio.Queue[object] = asyncio.Queue()
    await make_scratch_stream(admin)
    subscription = await admin.subscribe(SCRATCH, seen.put)

    async def round_trip() -> None:
        await append(admin, SCRATCH, b"look here", new_id("b"), stream=SCRATCH)
        await seen.get()

    try:
        yield round_trip
    finally:
        await subscription.unsubscribe()
        await drop_scratch_stream(admin)


async def _ms(work: Awaitable[object]) -> float:
    began = time.perf_counter()
    await work
    return (time.perf_counter() - began) * 1000


async def _killed_ms() -> float:
    """Its output has ended when nothing of the tree is left that could write."""
    program, *arguments = bubblewrap("sh", "-c", "echo; sleep 600 & sleep 600")
    argv = [program, "--die-with-parent", *arguments]
    process = await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    await process.stdout.readline()
    began = time.perf_counter()
    # All of them: what bubblewrap has started was seen to outlive it.
    os.killpg(process.pid, signal.SIGKILL)
    await process.stdout.read()
    await process.wait()
    return (time.perf_counter() - began) * 1000
