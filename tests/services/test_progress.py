"""Who waits for a sandbox hears what is being done about it."""

import asyncio
from pathlib import Path

from contracts import codec, subjects
from contracts.vitals import PROGRESS, Progress
from infra.sandbox.progress import listening, tell
from services.spawner.progress import Reporter
from tests.services.node import Node, node_in


async def test_what_a_provider_says_reaches_the_client_that_waits(tmp_path: Path) -> None:
    async with Node(tmp_path) as node, node.connect() as cloche:
        heard: asyncio.Queue[str] = asyncio.Queue()
        async with await node.server.connect("spawner") as spawner, Reporter(spawner).about("sb-1"):
            await cloche.bus.tap(
                subjects.vitals("sb-1", PROGRESS),
                lambda _subject, _reply, data, _headers: heard.put_nowait(codec.decode(data, Progress).line),
            )
            tell("pulling something: half")
            async with asyncio.timeout(10):
                assert await heard.get() == "pulling something: half"


async def test_only_what_is_told_within_is_heard() -> None:
    lines: list[str] = []
    with listening(lines.append):
        tell("one")
        await asyncio.to_thread(tell, "two")
    tell("three")
    assert lines == ["one", "two"]


async def test_a_create_without_a_listener_is_as_ever(tmp_path: Path) -> None:
    async with node_in(tmp_path) as (_, cloche):
        said: list[str] = []
        sandbox = await cloche.create(on_progress=said.append)
        assert (await sandbox.run("echo up")).stdout == b"up\n"
        assert said == []
