"""Sandboxes outlive the services, and are found again by who they are."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from contracts.errors import SandboxStartFailed
from infra.sandbox.base import Provider, ProviderEvent, SandboxState
from infra.sandbox.local.processes import identify
from infra.sandbox.local.record import Record, load_record, store_record
from infra.sandbox.providers import load_provider
from tests.conformance.inside import Inside, a_provider, a_sandbox, a_stranger, request, until

CREATOR = """
import asyncio, os, signal, sys
from pathlib import Path
from tests.conformance.inside import Inside, request
from infra.sandbox.providers import load_provider

async def main():
    provider = load_provider("local", Path(sys.argv[1]))
    await provider.create(request("sb-1"))
    inside = await Inside(provider, "sb-1").begin()
    await inside.run("/bin/sh", "-c", "(while :; do date > beat; sleep 0.01; done) > /dev/null 2>&1 &")
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


def record_of(data: Path) -> Record:
    record = load_record(data / "sandboxes/sb-1/runtime.json")
    assert record is not None
    return record


def change_record(data: Path, **changes: object) -> None:
    path = data / "sandboxes/sb-1/runtime.json"
    store_record(path, msgspec.structs.replace(record_of(data), **changes))


async def next_event(provider: Provider) -> ProviderEvent:
    async with asyncio.timeout(30):
        async for event in provider.events():
            return event
    raise AssertionError("events ended")


async def watching(provider: Provider) -> asyncio.Task[ProviderEvent]:
    """A listener that is surely there before the test goes on."""
    task = asyncio.create_task(next_event(provider))
    deaths = provider._deaths  # type: ignore[attr-defined]
    await until(lambda: bool(deaths._listeners) and bool(deaths._pidfds), "the listener watches")
    return task


async def test_a_sandbox_survives_the_death_of_the_process_that_made_it(tmp_path: Path) -> None:
    run = [sys.executable, "-c", CREATOR, str(tmp_path)]
    path = os.pathsep.join(entry for entry in sys.path if entry)
    creator = await asyncio.to_thread(subprocess.run, run, env={"PYTHONPATH": path}, check=False)
    assert creator.returncode == -signal.SIGKILL
    async with a_provider(tmp_path) as provider:
        inspection = await provider.inspect("sb-1")
        assert inspection is not None
        assert inspection.state is SandboxState.RUNNING
        beat = tmp_path / "sandboxes/sb-1/workspace/beat"
        await until(beat.exists, "the background process is at work")
        beat.unlink()
        await until(beat.exists, "the background process goes on")
        inside = await Inside(provider, "sb-1").begin()
        assert (await provider.start("sb-1")).instance == inspection.instance
        assert (await inside.run("echo", "still here")).out == "still here\n"


async def test_a_fresh_provider_finds_runs_and_ends_what_another_started(tmp_path: Path) -> None:
    async with a_sandbox(tmp_path) as inside:
        pid = (await inside.provider.start("sb-1")).pid
        async with load_provider("local", tmp_path) as other:
            assert (await other.start("sb-1")).pid == pid
            await other.pause("sb-1")
            assert await inside.provider.inspect("sb-1") == await other.inspect("sb-1")
            await other.stop("sb-1")
        assert identify(pid) is None


async def test_a_recycled_pid_is_not_taken_for_ours_and_not_harmed(tmp_path: Path) -> None:
    async with a_provider(tmp_path) as provider:
        await provider.create(request("sb-1"))
        await provider.start("sb-1")
        ours = record_of(tmp_path)
        await provider.stop("sb-1")
        with a_stranger() as stranger:
            assert ours.identity is not None
            recycled = msgspec.structs.replace(ours.identity, pid=stranger.pid)
            change_record(tmp_path, instance=ours.instance, identity=recycled)
            inspection = await provider.inspect("sb-1")
            assert inspection is not None
            assert inspection.state is SandboxState.STOPPED
            await provider.stop("sb-1", grace_s=0)
            assert stranger.poll() is None


async def test_an_identity_from_before_a_reboot_means_stopped(tmp_path: Path) -> None:
    async with a_provider(tmp_path) as provider:
        await provider.create(request("sb-1"))
        await provider.start("sb-1")
        ours = record_of(tmp_path)
        await provider.stop("sb-1")
        with a_stranger() as stranger:
            now = identify(stranger.pid)
            assert now is not None
            before = msgspec.structs.replace(now, boot_id="another")
            change_record(tmp_path, instance=ours.instance, identity=before)
            inspection = await provider.inspect("sb-1")
            assert inspection is not None
            assert inspection.state is SandboxState.STOPPED
            await provider.stop("sb-1", grace_s=0)
            assert stranger.poll() is None


async def test_a_start_whose_service_died_before_noting_the_pid_is_taken_over(tmp_path: Path) -> None:
    async with a_provider(tmp_path) as provider:
        await provider.create(request("sb-1"))
        started = await provider.start("sb-1")
        change_record(tmp_path, identity=None)
        inspection = await provider.inspect("sb-1")
        assert inspection is not None
        assert (inspection.state, inspection.pid) == (SandboxState.RUNNING, started.pid)
        assert await provider.start("sb-1") == started
        assert record_of(tmp_path).identity is not None


async def test_a_start_that_died_before_anything_ran_is_stopped_and_can_start(tmp_path: Path) -> None:
    async with a_provider(tmp_path) as provider:
        await provider.create(request("sb-1"))
        change_record(tmp_path, instance="0123456789abcdef")
        inspection = await provider.inspect("sb-1")
        assert inspection is not None
        assert inspection.state is SandboxState.STOPPED
        assert (await provider.start("sb-1")).instance != "0123456789abcdef"


async def test_another_init_on_the_socket_is_not_ours(tmp_path: Path) -> None:
    async with a_provider(tmp_path) as provider:
        await provider.create(request("sb-1"))
        ours = await provider.start("sb-1")
        change_record(tmp_path, instance="somebody-else", identity=None)
        inspection = await provider.inspect("sb-1")
        assert inspection is not None
        assert inspection.state is not SandboxState.RUNNING
        assert inspection.pid is None
        change_record(tmp_path, instance=ours.instance)


async def test_nothing_is_started_beside_a_living_incarnation(tmp_path: Path) -> None:
    async with a_provider(tmp_path) as provider:
        await provider.create(request("sb-1"))
        ours = await provider.start("sb-1")
        kept = record_of(tmp_path)
        change_record(tmp_path, instance=None, identity=None, cgroup=None)
        with pytest.raises(SandboxStartFailed, match="still alive"):
            await provider.start("sb-1")
        assert identify(ours.pid) is not None
        change_record(tmp_path, **msgspec.structs.asdict(kept))


async def test_creation_cut_short_is_finished_by_creating_again(tmp_path: Path) -> None:
    async with a_provider(tmp_path) as provider:
        await provider.create(request("sb-1"))
        change_record(tmp_path, ready=False)
        files = tmp_path / "sandboxes/sb-1"
        (files / "workspace").rename(files / "workspace.unfinished")
        (files / "workspace.unfinished/half").touch()
        inspection = await provider.inspect("sb-1")
        assert inspection is not None
        assert inspection.state is SandboxState.CREATING
        await provider.create(request("sb-1"))
        inside = await Inside(provider, "sb-1").begin()
        assert (await inside.run("ls", "-A")).out == ""


async def test_a_removal_cut_short_is_finished_later(tmp_path: Path) -> None:
    left = tmp_path / "sandboxes/.trash/sb-1.0123/workspace/deep"
    left.mkdir(parents=True)
    async with a_provider(tmp_path) as provider:
        assert await provider.sandboxes() == ()
        assert not left.exists()


async def test_a_death_is_told_at_once_with_its_cause(tmp_path: Path) -> None:
    async with a_sandbox(tmp_path) as inside:
        started = await inside.provider.start("sb-1")
        event = await watching(inside.provider)
        os.kill(started.pid, signal.SIGKILL)
        told = await event
        assert (told.sandbox, told.instance, told.kind) == ("sb-1", started.instance, "died")
        assert told.cause in {"killed", "unknown"}
        inspection = await inside.provider.inspect("sb-1")
        assert inspection is not None
        assert inspection.state is SandboxState.STOPPED
        assert (await inside.provider.start("sb-1")).instance != started.instance


async def test_a_death_is_told_for_a_sandbox_found_again(tmp_path: Path) -> None:
    async with a_sandbox(tmp_path) as inside, load_provider("local", tmp_path) as other:
        event = await watching(other)
        os.kill((await inside.provider.start("sb-1")).pid, signal.SIGKILL)
        assert (await event).kind == "died"


async def test_a_stop_is_told_as_a_stop(tmp_path: Path) -> None:
    async with a_sandbox(tmp_path) as inside:
        event = await watching(inside.provider)
        await inside.provider.stop("sb-1")
        assert (await event).kind == "stopped"


async def test_a_data_directory_deeper_than_a_socket_address_works(tmp_path: Path) -> None:
    data = tmp_path / ("d" * 100) / ("e" * 100)
    data.mkdir(parents=True)
    async with a_sandbox(data) as inside:
        assert (await inside.run("echo", "deep")).out == "deep\n"


async def test_many_starts_and_stops_leave_nothing_behind(tmp_path: Path) -> None:
    async with a_provider(tmp_path) as provider:
        await provider.create(request("sb-1"))
        await provider.start("sb-1")
        await provider.stop("sb-1", grace_s=0)
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(20):
            started = await provider.start("sb-1")
            place = record_of(tmp_path).cgroup
            await provider.stop("sb-1", grace_s=0)
            assert identify(started.pid) is None
            assert not any(Path(path).exists() for path in (place.paths.values() if place else ()))
        assert len(os.listdir("/proc/self/fd")) == before


async def test_a_sandbox_may_be_called_blank_and_its_death_is_told(tmp_path: Path) -> None:
    async with a_provider(tmp_path) as provider:
        await provider.create(request("blank"))
        started = await provider.start("blank")
        told = await watching(provider)
        os.kill(started.pid, signal.SIGKILL)
        event = await told
        assert (event.sandbox, event.instance, event.kind) == ("blank", started.instance, "died")
