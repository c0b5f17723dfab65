"""Sockets that listen inside a sandbox and are served from outside. As an ordinary user too: see `test_ways`."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from contracts.errors import Unavailable
from infra.netns import entrance as entrance_module
from infra.netns.entrance import Entered, Entrance
from infra.netns.errors import LifeIsOver, PortTaken
from infra.netns.helper import Helper
from infra.netns.process import HeldProcess, hold
from infra.sandbox.base import Provider
from infra.target import Target
from tests.conformance.inside import Inside, a_sandbox, until
from tests.conformance.tiers import TIERS
from tests.services.node import ROOT

PORT = 47_128
OTHER = 47_129
BY_ROOT, BY_OWNER = "with the rights of root", "through the user namespace that owns it"

on_each_tier = pytest.mark.parametrize("tier", ["local", "docker"])


async def instance_of(provider: Provider) -> str:
    seen = await provider.inspect("sb-1")
    assert seen is not None
    assert seen.instance is not None
    return seen.instance


async def entered(entrance: Entrance, inside: Inside, *ports: int) -> Entered:
    return await entrance.listen(inside.provider, inside.id, await instance_of(inside.provider), ports or (PORT,))


async def said_by_first(listener: socket.socket) -> bytes:
    """What the first who connects says; it is answered `heard`."""
    loop = asyncio.get_running_loop()
    connection, _ = await loop.sock_accept(listener)
    with connection:
        said = await loop.sock_recv(connection, 100)
        await loop.sock_sendall(connection, b"heard")
    return said


def knock(port: int) -> str:
    return (
        f"import socket\ns = socket.create_connection(('127.0.0.1', {port}), 20)\ns.sendall(b'knock')\nprint(s.recv(9))"
    )


def someone_listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize("tier", TIERS)
async def test_what_listens_inside_is_served_from_outside_and_nowhere_else(tmp_path: Path, tier: str) -> None:
    async with a_sandbox(tmp_path, name=tier) as inside, Entrance(tmp_path) as entrance:
        opened = await entered(entrance, inside, PORT, OTHER)
        try:
            assert opened.way.endswith(BY_ROOT if os.geteuid() == 0 else BY_OWNER)
            for port in (PORT, OTHER):
                heard = asyncio.create_task(said_by_first(opened.listeners[port]))
                assert (await inside.python(knock(port))).out == "b'heard'\n"
                assert await heard == b"knock"
            assert not someone_listens(PORT)
        finally:
            opened.close()
        assert "ConnectionRefusedError" in (await inside.python(knock(PORT))).err


async def test_a_port_that_something_inside_has_taken_is_told_and_free_when_that_ends(tmp_path: Path) -> None:
    hold = (
        f"import socket, time\ns = socket.create_server(('127.0.0.1', {PORT}))\nprint('up', flush=True)\ntime.sleep(99)"
    )
    async with a_sandbox(tmp_path) as inside, Entrance(tmp_path) as entrance:
        hostile = await inside.start("python3", "-c", hold)
        await until(lambda: hostile.out == "up\n", "it listens")
        with pytest.raises(PortTaken, match=str(PORT)):
            await entered(entrance, inside)
        await hostile.signal(signal.SIGKILL)
        await hostile.wait()
        (await entered(entrance, inside)).close()


async def test_what_was_closed_can_be_opened_again_at_once_though_connections_of_it_are_left(tmp_path: Path) -> None:
    async with a_sandbox(tmp_path) as inside, Entrance(tmp_path) as entrance:
        for _ in range(5):
            opened = await entered(entrance, inside)
            heard = asyncio.create_task(said_by_first(opened.listeners[PORT]))
            assert (await inside.python(knock(PORT))).ok
            await heard
            opened.close()


@on_each_tier
async def test_only_the_life_that_was_meant_is_entered_and_its_end_is_noticed(tmp_path: Path, tier: str) -> None:
    async with a_sandbox(tmp_path, name=tier) as inside, Entrance(tmp_path) as entrance:
        first = await instance_of(inside.provider)
        opened = await entered(entrance, inside)
        await inside.provider.stop(inside.id, 0)
        async with asyncio.timeout(30):
            await opened.life_is_over()
        opened.close()
        await inside.provider.start(inside.id)
        with pytest.raises(LifeIsOver):
            await entrance.listen(inside.provider, inside.id, first, (PORT,))
        (await entered(entrance, inside)).close()


async def test_many_are_opened_at_once(tmp_path: Path) -> None:
    async with a_sandbox(tmp_path) as inside, Entrance(tmp_path) as entrance:
        every = await asyncio.gather(*(entered(entrance, inside, PORT + number) for number in range(40)))
        assert [each.listeners[PORT + number].getsockname()[1] for number, each in enumerate(every)]
        for each in every:
            each.close()


async def test_whoever_gives_up_while_a_process_is_taken_hold_of_leaves_no_descriptor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, go_on = threading.Event(), threading.Event()

    def slowly(pid: int, target: Target) -> HeldProcess | None:
        process = hold(pid, target)
        held.set()
        go_on.wait()
        return process

    # Nothing from outside makes that take longer.
    monkeypatch.setattr(entrance_module, "hold", slowly)
    async with a_sandbox(tmp_path) as inside, Entrance(tmp_path) as entrance:
        before = _held_descriptors()
        entering = asyncio.create_task(entered(entrance, inside))
        await until(held.is_set, "it is held")
        entering.cancel()
        await asyncio.wait({entering})
        assert entering.cancelled()
        assert _held_descriptors() > before
        go_on.set()
        await until(lambda: _held_descriptors() == before, "it is let go")


def _held_descriptors() -> int:
    """Processes and network namespaces."""
    found = 0
    for each in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            found += str(each.readlink()).startswith(("net:", "anon_inode:[pidfd]"))
    return found


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
async def test_a_helper_that_was_killed_or_stands_still_is_replaced(tmp_path: Path, number: int) -> None:
    async with a_sandbox(tmp_path) as inside, Entrance(tmp_path, Helper(answer_s=3.0)) as entrance:
        (await entered(entrance, inside)).close()
        before = entrance.helper.pid
        assert before is not None
        os.kill(before, number)
        (await entered(entrance, inside)).close()
        assert entrance.helper.pid not in (None, before)
        await until(lambda: not Path(f"/proc/{before}").exists(), "the first is gone")


async def test_the_hosts_own_network_is_never_listened_in() -> None:
    own = os.open("/proc/self/ns/net", os.O_RDONLY)
    try:
        async with Helper() as helper:
            with pytest.raises(Unavailable, match="no network namespace of its own"):
                await helper.listen(own, (PORT,))
    finally:
        os.close(own)
    assert not someone_listens(PORT)


async def test_what_is_no_namespace_is_refused() -> None:
    with Path(__file__).open() as file:
        async with Helper() as helper:
            with pytest.raises(Unavailable):
                await helper.listen(file.fileno(), (PORT,))


OWNER = """
import asyncio, os
from infra.netns.helper import Helper

async def main():
    async with Helper() as helper:
        try:
            await helper.listen(os.open("/proc/self/ns/net", os.O_RDONLY), (47128,))
        except Exception:
            print(helper.pid, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_the_helper_ends_with_its_owner_however_that_ends() -> None:
    owner = subprocess.Popen([sys.executable, "-c", OWNER], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    with owner:
        assert owner.stdout is not None
        helper = int(await asyncio.to_thread(owner.stdout.readline))
        assert Path(f"/proc/{helper}").exists()
        owner.kill()
        await asyncio.to_thread(owner.wait)
    await until(lambda: not _lives(helper), "the helper is gone")


def _lives(pid: int) -> bool:
    """An orphan that nobody reaps is gone all the same."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
