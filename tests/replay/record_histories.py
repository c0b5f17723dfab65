"""Records golden histories from sessions on a real node: `python -m tests.replay.record_histories DIRECTORY`."""

import asyncio
import sys
import tempfile
from pathlib import Path

from infra.client import Cloche, Sandbox
from tests.contracts.golden_files import GOLDEN
from tests.replay import session
from tests.replay.golden_histories import keep
from tests.replay.live import recording

FIRST = ("creating", "created", "started")


async def record(place: Path, data: Path) -> None:
    async def rest(_: Sandbox) -> None:
        return

    async def commands(sandbox: Sandbox, _: int) -> None:
        await session.commands(sandbox, rest)
        await session.ended(sandbox, rest)
        await sandbox.remove()

    async def agent(sandbox: Sandbox, _: int) -> None:
        await session.agent(sandbox)

    async def running(sandbox: Sandbox, _: int) -> None:
        await sandbox.run("echo over")
        await session.going_on(sandbox)

    scenes = {"commands": commands, "agent": agent, "network": session.requests, "running": running}
    async with session.session_node(data) as node, node.connect() as cloche, session.web_server() as port:
        for name, scene in scenes.items():
            async with recording(cloche.bus, name, data / "sandboxes") as recorded:
                await scene(await session.made(cloche, name, port), port)
                await _told(cloche, name)
            (place / f"{name}.jsonl").write_bytes(b"".join(recorded.lines))


async def _told(cloche: Cloche, name: str) -> None:
    """Requests and files are told a moment later."""
    sandbox = await cloche.sandbox(name)
    async for event in sandbox.events(follow=True, types=["network.denied"] if name == "network" else ["file.ready"]):
        assert event
        return


def older() -> bytes:
    """What earlier releases wrote, one after another, and the least that each tag ever had to say."""
    found = sorted((*(GOLDEN / "older" / "events").glob("*.json"), *(GOLDEN / "least" / "events").glob("*.json")))
    # The beginning once, in its oldest shape.
    rest = [path for path in found if not path.name.startswith(("sandbox.creating", "vitals."))]
    lifecycle = [GOLDEN / "least" / "events" / f"sandbox.{kind}.json" for kind in FIRST]
    ordered = [*lifecycle, *(path for path in rest if path not in lifecycle)]
    lines = (
        b'{"sequence":%d,"event":%b}\n' % (10 + 3 * number, path.read_bytes().strip())
        for number, path in enumerate(ordered)
    )
    return b"".join(lines)


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(record(target, Path(directory) / "data"))
    (target / "older.jsonl").write_bytes(older())
    for path in target.glob("*.jsonl"):
        keep(path)
