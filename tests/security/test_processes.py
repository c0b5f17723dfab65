"""The host's processes, and the sandbox's own init, are out of reach."""

import os
import signal
from pathlib import Path

import pytest

from infra.keeper.frame import Kind
from infra.sandbox.base import SandboxState
from infra.target import LocalTarget
from tests.conformance.inside import Inside, a_provider, a_sandbox, a_stranger, request
from tests.keeper.rig import keeper_of
from tests.security.tiers import on_each_tier


async def target_of(inside: Inside) -> LocalTarget:
    target = await inside.provider.target(inside.id)
    assert isinstance(target, LocalTarget)
    return target


@on_each_tier
async def test_host_processes_are_invisible_and_cannot_be_signalled(tmp_path: Path, name: str) -> None:
    with a_stranger() as bystander:
        async with a_sandbox(tmp_path, name=name) as inside:
            visible = (await inside.sh("ls /proc | grep -E '^[0-9]+$'")).out.split()
            assert len(visible) < 10
            result = await inside.python(
                "import os, signal\n"
                f"for pid in ({bystander.pid}, {os.getpid()}, -1):\n"
                "    try: os.kill(pid, signal.SIGKILL if pid > 0 else 0)\n"
                "    except OSError as error: print(type(error).__name__)\n"
            )
            assert result.out.count("ProcessLookupError") >= 2, result
        assert bystander.poll() is None


async def test_killing_everything_inside_leaves_init_and_the_host(tmp_path: Path) -> None:
    async with a_sandbox(tmp_path) as inside:
        assert (await inside.sh("kill -9 -1; kill -9 1; kill -TERM 1; kill -STOP 1")).signal in (9, None)
        assert (await inside.sh("kill -9 1; kill -TERM 1; kill -INT 1; kill -STOP 1; kill -HUP 1")).ok
        inspection = await inside.provider.inspect("sb-1")
        assert inspection is not None
        assert inspection.state is SandboxState.RUNNING
        assert (await inside.run("echo", "alive")).out == "alive\n"


STOPS_WHATEVER_BEGINS = """
import os, signal
print("ready", flush=True)
newest = os.getpid()
while True:
    for pid in range(newest + 1, newest + 4):
        try:
            os.kill(pid, signal.SIGSTOP)
            newest = pid
        except ProcessLookupError:
            pass
"""


async def test_a_neighbour_that_stops_every_new_command_does_not_stop_init(tmp_path: Path) -> None:
    """Init lends its memory to a child until the exec, and waits: a child that is stopped before must be freed."""
    async with a_sandbox(tmp_path) as inside, keeper_of(tmp_path / "keeper", await target_of(inside)) as keeper:
        hostile = await keeper.start("python3", "-c", STOPS_WHATEVER_BEGINS)
        await keeper.until(hostile, lambda result: result.stdout == b"ready\n")
        begun = [await keeper.start("true") for _ in range(3)]
        assert await keeper.client.signal(hostile, signal.SIGKILL) >= 1
        assert (await keeper.final(hostile)).exit.signal == signal.SIGKILL
        for exec_id in begun:
            await keeper.client.signal(exec_id, signal.SIGKILL)
            assert Kind.EXIT in (await keeper.final(exec_id)).kinds
        assert (await keeper.run("echo", "alive")).stdout == b"alive\n"


async def test_init_cannot_be_looked_into(tmp_path: Path) -> None:
    async with a_sandbox(tmp_path) as inside:
        for what in ("fd", "environ", "mem", "maps", "cwd", "root", "exe", "map_files", "stack", "syscall"):
            result = await inside.sh(f"ls /proc/1/{what}/ || cat /proc/1/{what}")
            assert result.out == ""
            assert "ermission denied" in result.err or "not permitted" in result.err


async def test_init_cannot_be_traced_or_robbed_of_descriptors(tmp_path: Path) -> None:
    script = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
ATTACH, SEIZE = 16, 0x4206
print([libc.ptrace(request, 1, 0, 0) for request in (ATTACH, SEIZE)])
pidfd = os.pidfd_open(1)
print([libc.syscall(438, pidfd, number, 0) for number in range(8)])
buffer = ctypes.create_string_buffer(8)
iov = (ctypes.c_void_p * 2)(ctypes.addressof(buffer), 8)
print(libc.process_vm_readv(1, iov, 1, iov, 1, 0))
"""
    async with a_sandbox(tmp_path) as inside:
        result = await inside.python(script)
        assert result.out == f"[-1, -1]\n{[-1] * 8}\n-1\n", result.err


@on_each_tier
async def test_a_command_inherits_nothing_but_its_own_stdio(tmp_path: Path, name: str) -> None:
    async with a_sandbox(tmp_path, name=name) as inside:
        result = await inside.python("import os; print(sorted(os.listdir('/proc/self/fd')))")
        # 3 is the listing itself.
        assert result.out == "['0', '1', '2', '3']\n"


async def test_the_control_socket_is_not_reachable_from_inside(tmp_path: Path) -> None:
    async with a_sandbox(tmp_path) as inside:
        socket = (await target_of(inside)).socket
        result = await inside.python(f"import socket; s = socket.socket(socket.AF_UNIX); s.connect({socket[-100:]!r})")
        assert not result.ok
        found = await inside.sh("find / -xdev -type s 2>/dev/null; grep init.sock /proc/net/unix")
        assert found.out == ""


@on_each_tier
async def test_two_sandboxes_do_not_see_each_others_processes(tmp_path: Path, name: str) -> None:
    async with a_provider(tmp_path, name) as provider:
        for sandbox in ("sb-1", "sb-2"):
            await provider.create(request(sandbox, on=name))
        mine, other = [await Inside(provider, sandbox).begin() for sandbox in ("sb-1", "sb-2")]
        victim = await other.start("sleep", "12345")
        assert "12345" not in (await mine.sh("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")).out
        await mine.sh("sleep 54321 & kill -9 -1")
        assert "54321" not in (await mine.sh("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")).out
        assert "12345" in (await other.sh("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")).out
        await victim.signal(signal.SIGKILL)


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user has only one uid")
async def test_as_root_each_sandbox_has_a_host_user_of_its_own(tmp_path: Path) -> None:
    async with a_provider(tmp_path) as provider:
        owners = []
        for sandbox in ("sb-1", "sb-2", "sb-3"):
            await provider.create(request(sandbox))
            started = await provider.start(sandbox)
            status = Path(f"/proc/{started.pid}/status").read_text()
            owners.append(next(line for line in status.splitlines() if line.startswith("Uid:")).split()[1:])
        assert all(len(set(ids)) == 1 and int(ids[0]) >= 200_000 for ids in owners)
        assert len({ids[0] for ids in owners}) == 3
