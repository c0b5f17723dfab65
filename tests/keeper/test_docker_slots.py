"""Slots whose shell, container or engine is not what it should be."""

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator

import pytest

from infra.keeper.docker.engine import Engine
from infra.keeper.docker.frames import STDERR, STDOUT
from infra.keeper.docker.shell import Usual
from infra.keeper.docker.slot import MOST_BESIDE, Slot, SlotBroken
from infra.keeper.docker.slot_way import SlotWay
from infra.keeper.docker.slots import MOST_IN_ALL, SlotPool
from infra.keeper.launch import SandboxSilent
from infra.keeper.protocol import Start
from infra.keeper.stdio import open_pipes
from infra.target import DockerTarget
from tests import images
from tests.keeper.docker_rig import box, docker_rig
from tests.keeper.rig import ENV

UNKNOWN = "0" * 64


class Engineless:
    """A slot whose other end is the test's."""

    def __init__(self) -> None:
        ours, self.theirs = socket.socketpair()
        ours.setblocking(False)
        self.slot = Slot(ours, UNKNOWN)

    async def say(self, stream: int, data: bytes) -> None:
        self.theirs.setblocking(False)
        frame = struct.pack(">BxxxL", stream, len(data)) + data
        await asyncio.get_running_loop().sock_sendall(self.theirs, frame)

    def close(self) -> None:
        self.slot.close()
        self.theirs.close()


@contextlib.asynccontextmanager
async def engine_of(target: DockerTarget) -> AsyncIterator[Engine]:
    engine = await Engine.open(target.engine)
    try:
        yield engine
    finally:
        await engine.aclose()


async def test_a_shell_that_its_engine_does_not_know_any_more_may_have_begun_and_nothing_is_tried_again() -> None:
    async with box(images.busybox()) as made, engine_of(await made.target()) as engine:
        broken, target, stdio = Engineless(), await made.target(), open_pipes(stdin=False)
        start = Start(id=1, exec="e1", target=target, argv=("touch", "/tmp/ran"), env=ENV, cwd="/")
        broken.theirs.shutdown(socket.SHUT_WR)
        with contextlib.closing(broken), pytest.raises(SandboxSilent):
            await SlotWay(engine, target, broken.slot).launch(start, stdio.inside)
        stdio.close_inside()
        stdio.close_outside()
        slot = await Slot.park(engine.execs, target, Usual())
        assert await slot.ask(b"[ -e /tmp/ran ]; echo $?; exit\n") == "1"
        slot.close()


async def test_what_floods_the_stderr_of_a_waiting_shell_does_not_fill_the_keeper() -> None:
    with contextlib.closing(Engineless()) as flooded:

        async def flood() -> None:
            with contextlib.suppress(OSError):
                for _ in range(2 * MOST_BESIDE // 65_536):
                    await flooded.say(STDERR, b"x" * 65_536)
                await flooded.say(STDOUT, b"too late\n")

        flooding = asyncio.create_task(flood())
        with pytest.raises(SlotBroken):
            await flooded.slot.answer()
        flooded.slot.close()
        await flooding


async def test_more_containers_than_slots_share_them_and_come_to_rest() -> None:
    opened: list[Engineless] = []
    sizes: list[int] = []
    go = asyncio.Event()

    async def open_slot(_target: DockerTarget, _usual: Usual) -> Slot:
        await go.wait()
        opened.append(Engineless())
        sizes.append(pool.size + 1)
        return opened[-1].slot

    pool = SlotPool(open_slot)
    targets = [
        DockerTarget(engine="", container=str(number), instance="", user="", shell="/bin/sh") for number in range(100)
    ]
    for target in targets:
        pool.fill(target)
    go.set()
    for target in targets:
        await pool.filled(target)
    await pool.aclose()
    for each in opened:
        each.close()
    assert max(sizes) <= MOST_IN_ALL
    assert len(opened) <= 2 * len(targets)


async def test_a_slot_in_stock_is_a_hit_and_one_that_has_to_be_opened_a_miss() -> None:
    opened: list[Engineless] = []

    async def open_slot(_target: DockerTarget, _usual: Usual) -> Slot:
        opened.append(Engineless())
        return opened[-1].slot

    pool = SlotPool(open_slot)
    target = DockerTarget(engine="", container="c", instance="", user="", shell="/bin/sh")
    taken = [await pool.get(target)]
    await pool.filled(target)
    taken.append(await pool.get(target))
    assert (pool.misses, pool.hits) == (1, 1)
    await pool.aclose()
    for each in (*taken, *(engineless.slot for engineless in opened)):
        each.close()
    for engineless in opened:
        engineless.theirs.close()


async def test_a_shell_with_an_impossible_greeting_is_done_without() -> None:
    async with docker_rig(images.busybox()) as (made, box):
        script = "printf '#!/bin/sh\\necho cloche \\302\\262 env\\nexec sleep 1000\\n' > /tmp/odd; chmod +x /tmp/odd"
        assert (await made.shell(script)).exit.code == 0
        made.target = await box.target("/tmp/odd")
        for rows in (None, 10):
            assert (await made.final(await made.start("sh", "-c", "exit 3", rows=rows))).exit.code == 3
