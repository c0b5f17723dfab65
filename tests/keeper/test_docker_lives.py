"""How commands in containers end, and what is left of them: nothing."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable

import msgspec
import pytest

from contracts.errors import Conflict
from infra.keeper.frame import Kind
from infra.keeper.outcome import Exit
from tests import images
from tests.docker.own_engine import OwnEngine
from tests.keeper.docker_rig import Box, docker_rig
from tests.keeper.rig import ENV, ROOT, gone

KILLED = 137
"""As an engine tells SIGKILL."""

SHELLS = [("busybox", "/bin/sh"), ("debian", "/bin/dash"), ("debian", "/bin/bash")]
TREE = """
  setsid sh -c 'echo > /tmp/a; sleep 1001' &
  (setsid sh -c '(sh -c "echo > /tmp/b; exec sleep 1002" &) ; exit' &)
  sh -c 'echo > /tmp/c; exec env -i sleep 1003' &
  while ! [ -s /tmp/a -a -s /tmp/b -a -s /tmp/c ]; do sleep 0.01; done
  echo ready; wait; sleep 1004"""


async def becomes(holds: Callable[[], Awaitable[bool]]) -> None:
    """For what the engine gives no event for."""
    deadline = time.monotonic() + 15
    while not await holds():
        assert time.monotonic() < deadline, "it did not happen in 15 s"
        await asyncio.sleep(0.02)


async def runs(box: Box, text: str) -> bool:
    return any(text in line and not line.startswith("Z") for line in await box.processes())


def image(name: str) -> str:
    return {"busybox": images.busybox, "debian": images.debian}[name]()


@pytest.mark.parametrize(("name", "shell"), SHELLS)
async def test_a_kill_reaches_children_that_left_the_session_or_forked_twice(name: str, shell: str) -> None:
    async with docker_rig(image(name), shell) as (made, box):
        bystander = await made.start("sleep", "2000", exec_id="e10")
        exec_id = await made.start("sh", "-c", TREE, exec_id="e1")
        await made.until(exec_id, lambda result: result.stdout == b"ready\n")
        assert await made.client.signal(exec_id, signal.SIGKILL, note="time limit") >= 4
        result = await made.final(exec_id)
        assert (result.exit.code, result.exit.signal, result.exit.notes) == (None, signal.SIGKILL, ("time limit",))
        assert not await runs(box, "sleep 100")
        assert (await made.client.info(bystander)).state == "running"
        assert await made.client.signal(bystander, signal.SIGTERM) == 1
        assert (await made.final(bystander)).exit.code == 128 + signal.SIGTERM


@pytest.mark.parametrize("rows", [None, 10])
async def test_a_signal_to_the_main_process_leaves_its_children(rows: int | None) -> None:
    script = "trap 'echo got; exit 5' TERM; sleep 1001 & echo ready; while :; do sleep 0.01; done"
    kind = Kind.PTY if rows else Kind.STDOUT
    async with docker_rig(images.busybox()) as (made, _box):
        exec_id = await made.start("sh", "-c", script, rows=rows)
        await made.until(exec_id, lambda result: b"ready" in result.stream(kind))
        assert await made.client.signal(exec_id, signal.SIGTERM, "main") == 1
        result = await made.final(exec_id)
        assert result.stream(kind).split() == [b"ready", b"got"]
        assert result.exit.code == 5
        assert await made.client.signal(exec_id, signal.SIGTERM) == 0


async def test_a_fork_bomb_at_its_limit_can_be_killed() -> None:
    async with docker_rig(images.busybox(), PidsLimit=40) as (made, box):
        await made.client.prepare(made.target, ENV)
        exec_id = await made.start("sh", "-c", "f() { sleep 1001 & f; }; f; echo full; sleep 1001")
        await made.until(exec_id, lambda result: b"fork" in result.stream(Kind.STDERR))
        await made.client.signal(exec_id, signal.SIGKILL)
        assert (await made.final(exec_id)).kinds[-2:] == [Kind.EXIT, Kind.CLOSED]
        await becomes(lambda: _not(runs(box, "sleep 100")))


async def _not(answer: Awaitable[bool]) -> bool:
    return not await answer


async def test_the_end_of_the_process_ends_the_command_though_a_child_holds_its_stream() -> None:
    async with docker_rig(images.busybox()) as (made, _):
        result = await made.shell("sleep 1000 & echo early; exit 6")
        assert (result.stdout, result.exit.code) == (b"early\n", 6)


async def test_a_command_may_close_its_streams_and_go_on() -> None:
    async with docker_rig(images.busybox()) as (made, _):
        piped = await made.start("sh", "-c", "echo hi; exec >&- 2>&-; sleep 3; exit 7")
        typed = await made.start("sh", "-c", "exec </dev/null >/dev/null 2>&1; sleep 3; exit 8", rows=10)
        result = await made.final(piped)
        assert (result.stdout, result.exit.code) == (b"hi\n", 7)
        assert (await made.final(typed)).exit.code == 8


async def test_a_container_that_stops_loses_its_commands_and_slots() -> None:
    async with docker_rig(images.busybox()) as (made, box):
        piped = await made.start("sh", "-c", "echo hi; sleep 1000", stdin=True)
        typed = await made.start("sh", "-c", "echo hi; sleep 1000", rows=10)
        await made.until(piped, lambda result: result.stdout == b"hi\n")
        await box.container.stop(t=0)
        result = await made.final(piped)
        assert result.stdout == b"hi\n"
        end = result.kinds[1]
        assert result.kinds == [Kind.STDOUT, end, Kind.CLOSED]
        # The engine may still tell how the kernel ended it along with the container.
        if end is Kind.EXIT:
            assert result.exit.code == KILLED
        else:
            assert (result.lost.cause, result.lost.totals.stdout) == ("sandbox_gone", 3)
        result = await made.final(typed)
        if Kind.EXIT in result.kinds:
            assert result.exit.code == KILLED
        else:
            assert result.lost.cause == "sandbox_gone"
        assert (await made.run("true")).failed.code == "SANDBOX_GONE"


async def test_a_container_that_is_removed_loses_its_commands() -> None:
    async with docker_rig(images.busybox()) as (made, box):
        exec_id = await made.start("sleep", "1000")
        await box.container.kill()
        assert (await made.final(exec_id)).lost.cause == "sandbox_gone"


async def test_an_engine_that_dies_and_comes_back_ends_commands_as_lost() -> None:
    async with (
        OwnEngine() as engine,
        docker_rig(images.busybox(engine.address), address=engine.address) as (made, box),
    ):
        exec_id = await made.start("sh", "-c", "echo hi; sleep 1001")
        await made.until(exec_id, lambda result: result.stdout == b"hi\n")
        await engine.kill()
        with pytest.raises(Conflict):
            await made.client.signal(exec_id, signal.SIGKILL)
        await engine.start()
        result = await made.final(exec_id)
        assert result.kinds == [Kind.STDOUT, Kind.LOST, Kind.CLOSED]
        assert result.lost.cause == "sandbox_gone"
        await box.container.start()
        made.target = await box.target()
        assert (await made.shell("exit 4")).exit.code == 4


async def test_a_paused_container_takes_no_signal_and_goes_on_later() -> None:
    async with docker_rig(images.busybox()) as (made, box):
        exec_id = await made.start("sleep", "1000")
        await made.client.prepare(made.target, ENV)
        await box.container.pause()
        with pytest.raises(Conflict):
            await made.client.signal(exec_id, signal.SIGKILL)
        result = await made.final(await made.start("true", rows=10))
        assert (result.failed.code, "paused" in result.failed.message) == ("FAILED", True)
        await box.container.unpause()
        assert await made.client.signal(exec_id, signal.SIGKILL) == 1
        assert (await made.final(exec_id)).exit.signal == signal.SIGKILL


async def test_a_new_keeper_kills_what_the_dead_one_left_and_its_slots_end_by_themselves() -> None:
    async with docker_rig(images.busybox()) as (made, box):
        exec_id = await made.start("sh", "-c", "echo hi; (setsid sleep 1001 &); sleep 1002")
        typed = await made.start("sleep", "1003", rows=10)
        await made.client.prepare(made.target, ENV)
        await made.until(exec_id, lambda result: result.stdout == b"hi\n")
        assert await runs(box, "cloche_line")
        await made.kill_keeper()
        await becomes(lambda: _not(runs(box, "cloche_line")))
        assert await runs(box, "sleep 1002")
        await made.new_keeper()
        assert (await made.final(exec_id)).lost.cause == "keeper_died"
        assert (await made.final(typed)).lost.cause == "keeper_died"
        await becomes(lambda: _not(runs(box, "sleep 100")))
        assert (await made.shell("exit 4")).exit.code == 4


async def test_what_one_keeper_could_not_kill_before_it_died_the_next_one_kills() -> None:
    async with docker_rig(images.busybox(), None) as (made, box):
        exec_id = await made.start("sleep", "1001")
        await made.kill_keeper()
        await box.container.pause()
        await made.new_keeper()
        await made.kill_keeper()
        await box.container.unpause()
        await made.new_keeper()
        await becomes(lambda: _not(runs(box, "sleep 1001")))
        assert (await made.final(exec_id)).lost.cause == "keeper_died"


async def test_a_forced_shutdown_kills_commands_and_leaves_no_slot() -> None:
    async with docker_rig(images.busybox()) as (made, box):
        exec_id = await made.start("sh", "-c", "(setsid sleep 1001 &); sleep 1002")
        bare = await made.start("sh", "-c", "echo hi; exec env -i sleep 1003")
        await made.until(bare, lambda result: result.stdout == b"hi\n")
        await becomes(lambda: runs(box, "sleep 1003"))
        await made.client.prepare(made.target, ENV)
        ended = os.pidfd_open((await made.keeper()).pid)
        await made.client.shutdown(force=True)
        await gone(ended)
        assert not await runs(box, "sleep 100")
        await becomes(lambda: _is_empty(box))
        await made.new_keeper()
        assert (await made.final(exec_id)).lost.cause == "keeper_stopped"


async def _is_empty(box: Box) -> bool:
    return await box.processes() == []


async def test_a_backlog_stops_the_command_until_it_is_confirmed() -> None:
    async with docker_rig(images.busybox()) as (made, _):
        ended = os.pidfd_open((await made.keeper()).pid)
        await made.client.shutdown()
        await gone(ended)
        command = [sys.executable, "-m", "infra.keeper", "--data", str(made.data), "--backlog-bytes", "1000000"]
        await asyncio.to_thread(subprocess.run, [*command, "--detach"], cwd=ROOT, check=True)
        await made.new_keeper()
        exec_id = await made.start("sh", "-c", "head -c 8000000 /dev/zero; echo end >&2")
        size = (await made.client.wait(exec_id, 1_000_000)).size
        shell = await made.shell("echo meanwhile")
        assert shell.stdout == b"meanwhile\n"
        assert (await made.client.info(exec_id)).size - size < 1_000_000
        assert (await made.client.info(exec_id)).state == "running"
        await made.client.confirm(exec_id, size)
        while not (grown := await made.client.wait(exec_id, size)).final:
            size = grown.size
            await made.client.confirm(exec_id, size)
        frames = made.frames(exec_id, (await made.client.info(exec_id)).first)
        outcome = msgspec.json.decode(frames[-2].payload, type=Exit)
        assert (outcome.code, outcome.totals.stdout, outcome.totals.stderr) == (0, 8_000_000, 4)


async def test_prepared_slots_are_there_used_once_and_harmless_elsewhere() -> None:
    async with docker_rig(images.busybox()) as (made, box):
        await made.client.prepare(made.target, ENV)
        assert await box.execs() == 2
        await made.client.prepare(made.target, ENV)
        assert await box.execs() == 2
        pids = [(await made.shell("echo $$")).stdout for _ in range(5)]
        assert len(set(pids)) == 5
        await made.client.prepare(msgspec.structs.replace(made.target, shell=None), ENV)
        await made.client.prepare(msgspec.structs.replace(made.target, engine="tcp://nowhere"), ENV)
        await made.client.prepare(msgspec.structs.replace(made.target, container="0" * 64), ENV)


async def test_a_slot_that_was_killed_is_replaced() -> None:
    async with docker_rig(images.busybox()) as (made, _box):
        await made.client.prepare(made.target, ENV)
        parked = "[ $4 = 0 ] && [ $1 != 1 ] && [ $1 != $$ ]"
        murder = f"for d in /proc/[0-9]*; do set -- $(cat $d/stat 2>/dev/null); {parked} && kill -9 $1; done"
        assert (await made.shell(f"{murder}; exit 3")).exit.code == 3
        assert (await made.shell("exit 4")).exit.code == 4


async def test_200_commands_leave_no_exec_connection_descriptor_or_zombie() -> None:
    async with docker_rig(images.busybox()) as (made, box):
        await made.final(await made.start("true", exec_id="warm-up"))
        keeper = await made.keeper()

        async def one(number: int) -> None:
            exec_id = await made.start("sh", "-c", "echo hi; (sleep 0 &)", exec_id=f"n{number}", stdin=True)
            assert (await made.final(exec_id)).stdout == b"hi\n"
            await made.client.forget(exec_id)

        for start in range(0, 200, 4):
            await asyncio.gather(*(one(start + number) for number in range(4)))
        await becomes(lambda: _all_is_idle(box))
        sockets = len(keeper.net_connections("unix"))
        assert sockets < 30
        assert keeper.num_fds() < sockets + 30
        assert [info.exec for info in await made.client.list()] == ["warm-up"]


async def _all_is_idle(box: Box) -> bool:
    lines = await box.processes()
    return len(lines) == await box.execs() <= 8 and all("cloche_line" in line for line in lines)
