"""Ways out of a container that a local sandbox does not have."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from infra.sandbox.base import SandboxState
from tests.conformance.inside import a_sandbox, a_stranger
from tests.docker.containers import Deaths, engine_client, run, spec, unique
from tests.docker.containers import a_sandbox as a_bare_sandbox
from tests.images import debian

MASKED = ("kcore", "keys", "latency_stats", "timer_list", "sched_debug", "scsi", "acpi")
OFFLINE: dict[str, Any] = {"HostConfig": {"NetworkMode": "none"}}
READ_ONLY = ("sys", "bus", "fs", "irq", "sysrq-trigger")


async def test_the_engine_cannot_be_reached(tmp_path: Path) -> None:
    script = """
import os, socket
found = []
for top, _, names in os.walk("/"):
    if not top.startswith(("/proc", "/sys")):
        found += [name for name in names if name.endswith(".sock")]
print(found)
for path in ("/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock", "/proc/1/root/docker.sock"):
    try: socket.socket(socket.AF_UNIX).connect(path); print("connected")
    except OSError as error: print(type(error).__name__)
"""
    async with a_sandbox(tmp_path, name="docker") as inside:
        result = await inside.python(script)
        assert result.out.splitlines()[0] == "[]", result.err
        assert "connected" not in result.out


async def test_what_is_mounted_is_the_images_own_or_memory_or_the_workspace(tmp_path: Path) -> None:
    async with a_sandbox(tmp_path, name="docker") as inside:
        lines = (await inside.run("cat", "/proc/self/mountinfo")).out.splitlines()
        assert lines
        for line in lines:
            before, _, after = line.partition(" - ")
            root, where, options = before.split()[3:6]
            kind = after.split()[0]
            if kind in ("overlay", "proc", "tmpfs", "devpts", "sysfs", "mqueue", "devtmpfs") or "cgroup" in kind:
                continue
            # Of the host's disk: the workspace, a program of ours, and the engine's files for each container.
            assert where in ("/workspace", "/.cloche-idle", "/opt/cloche/bin") or (
                where in ("/etc/hosts", "/etc/hostname", "/etc/resolv.conf") and "containers" in root
            ), line
            assert where == "/workspace" or "ro" in options.split(","), line


async def test_the_kernels_files_are_masked_or_read_only(tmp_path: Path) -> None:
    async with a_sandbox(tmp_path, name="docker") as inside:
        for masked in MASKED:
            result = await inside.sh(f"cat /proc/{masked} 2>/dev/null | head -c 10; ls -A /proc/{masked} 2>/dev/null")
            assert result.out in ("", f"/proc/{masked}\n"), masked
        lines = (line.split() for line in (await inside.run("cat", "/proc/self/mounts")).out.splitlines())
        options = {where: set(flags.split(",")) for _, where, _, flags, *_ in lines}
        for part in (each for each in READ_ONLY if Path("/proc", each).exists()):
            assert "ro" in options[f"/proc/{part}"]
        assert "ro" in options["/sys"]
        written = await inside.sh(
            "for f in $(find /sys -writable -type f 2>/dev/null); do echo x > $f && echo $f; done"
        )
        assert written.out == ""


async def test_control_groups_cannot_be_changed_and_no_agent_of_theirs_set(tmp_path: Path) -> None:
    script = (
        "echo /workspace/x > /sys/fs/cgroup/memory/release_agent; mkdir /sys/fs/cgroup/memory/own; "
        "echo -1 > /sys/fs/cgroup/memory/memory.limit_in_bytes; echo max > /sys/fs/cgroup/memory.max; "
        "echo $$ > /sys/fs/cgroup/cgroup.procs; echo $$ > /sys/fs/cgroup/memory/tasks"
    )
    async with a_sandbox(tmp_path, name="docker") as inside:
        result = await inside.sh(script)
        assert len(result.err.splitlines()) == 6, result.err
        assert not result.ok


@asynccontextmanager
async def an_image_with_a_setuid_program() -> AsyncIterator[str]:
    """`/usr/bin/id-as-root`: without our hardening it has root's rights."""
    tag = f"cloche-test/{unique('setuid')}"
    script = "cp /usr/bin/id /usr/bin/id-as-root && chmod 4755 /usr/bin/id-as-root"
    async with engine_client() as docker:
        made = await docker.containers.create(
            {"Image": debian(), "Cmd": ["sh", "-c", script], **OFFLINE}, name=unique("cloche-test")
        )
        try:
            await made.start()
            await made.wait()
            await made.commit(repository=tag, tag="1")
        finally:
            await made.delete(force=True)
        try:
            yield f"{tag}:1"
        finally:
            await docker.images.delete(f"{tag}:1", force=True)


async def test_a_setuid_program_of_the_image_gains_nothing(tmp_path: Path) -> None:
    async with an_image_with_a_setuid_program() as image, engine_client() as docker:
        plain = await docker.containers.create(
            {"Image": image, "Cmd": ["id-as-root", "-u"], "User": "1000:1000", **OFFLINE}, name=unique("cloche-test")
        )
        try:
            await plain.start()
            await plain.wait()
            assert "".join(await plain.log(stdout=True)).strip() == "0", "the program would prove nothing"
        finally:
            await plain.delete(force=True)
        async with a_bare_sandbox(tmp_path, spec(image)) as provider:
            assert (await run(provider, "id-as-root", "-u")).out == "1000\n"


async def test_a_sandbox_that_ends_itself_is_told_and_takes_nothing_along(tmp_path: Path) -> None:
    with a_stranger() as bystander:
        async with a_bare_sandbox(tmp_path) as provider, Deaths(provider) as deaths:
            await run(provider, "kill", "1")
            told = await deaths.next()
            assert (told.sandbox, told.kind) == ("sb-1", "died")
            seen = await provider.inspect("sb-1")
            assert seen is not None
            assert seen.state is SandboxState.STOPPED
            await provider.start("sb-1")
            assert (await run(provider, "echo", "again")).out == "again\n"
        assert bystander.poll() is None


async def test_the_engines_own_network_is_not_there(tmp_path: Path) -> None:
    with socket.create_server(("0.0.0.0", 0)) as server:
        port = server.getsockname()[1]
        async with a_sandbox(tmp_path, name="docker") as inside:
            for host in ("172.17.0.1", "169.254.169.254", "host.docker.internal"):
                script = f"import socket; socket.create_connection(({host!r}, {port}), 5)"
                result = await inside.python(script)
                assert "unreachable" in result.err or "gaierror" in result.err, result.err
