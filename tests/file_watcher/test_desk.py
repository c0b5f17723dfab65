"""Requests that make no sense are refused with a code."""

import asyncio
from pathlib import Path

import pytest

from contracts import codec, subjects
from contracts.events.sandbox import SandboxCreating
from contracts.queries import Reply
from contracts.spec import Isolation, SandboxSpec
from contracts.watch import Flush
from infra.blobs.blobs import Blobs
from infra.bus.desk import Desk
from infra.journal import Journal
from infra.settings import Files
from infra.watching.watches import Watches
from services.file_watcher.loop import Followers
from services.file_watcher.places import Places
from services.file_watcher.remembered import Remembered
from services.file_watcher.texts import Texts
from services.file_watcher.tools import Tools
from tests.bus.servers import nats_in

REFUSED = [
    ("sb.watch.flush", b"{", "INVALID"),
    ("sb.watch.flush", b'{"x":1}', "INVALID"),
    ("sb.watch.flush", b'{"manifest":"yes"}', "INVALID"),
    ("sb.watch.flush", b"\xff", "INVALID"),
    ("sb.watch.burn", b"{}", "INVALID"),
    ("sb.files.flush", b"{}", "INVALID"),
    ("nobody.watch.flush", b"", "SANDBOX_NOT_FOUND"),
    ("sb.watch.flush", b"{}", "SANDBOX_INVALID_STATE"),
]


async def test_what_makes_no_sense_is_refused_with_a_code(tmp_path: Path) -> None:
    creating = SandboxCreating(spec=SandboxSpec(), isolation=Isolation.LOCAL, node="elsewhere")
    async with nats_in(tmp_path) as server, asyncio.TaskGroup() as tasks, Watches() as watches:
        spawner = Journal(await server.connect("spawner"), service="spawner", node="elsewhere")
        await spawner.append(spawner.write("sb", creating, id="1"))
        bus = await server.connect("file_watcher")
        journal = Journal(bus, service="file_watcher", node="local")
        tools = Tools(bus, journal, Blobs(bus), watches, Files(), Texts(), asyncio.Semaphore(1), Remembered(tmp_path))
        desk = Desk("watch", "flush", Flush, Followers(tools, Places(tmp_path), tasks).flush)
        for rest, body, code in REFUSED:
            reply: Reply = codec.decode(await desk.answer(f"cloche.rpc.local.{rest}", body), Reply)
            assert reply.failure is not None
            assert reply.failure.code == code, (rest, body)


@pytest.mark.parametrize("subject", ["cloche.rpc.local.sb.watch", "cloche.rpc.local.s b.watch.flush", "cloche.x"])
def test_only_its_own_subjects_are_read(subject: str) -> None:
    with pytest.raises(Exception, match=r"is not"):
        subjects.parse_rpc("watch", subject)
    assert subjects.parse_rpc("watch", subjects.rpc("watch", "n", "sb", "flush")) == ("n", "sb", "flush")
