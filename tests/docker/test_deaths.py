"""Deaths of Docker sandboxes: each told once, with its cause, also across a death of the engine."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from contracts.errors import Unavailable
from contracts.spec import Docker
from infra.sandbox.base import Created, SandboxState
from infra.sandbox.docker.provider import DockerProvider
from tests.docker.containers import Deaths, a_provider, a_sandbox, engine, engine_client, request, sh, spec, until
from tests.docker.own_engine import OwnEngine
from tests.images import busybox


async def test_a_stop_is_told_as_a_stop_and_a_kill_as_a_death(tmp_path: Path) -> None:
    async with a_sandbox(tmp_path) as provider, Deaths(provider) as deaths:
        first = (await provider.target("sb-1")).instance
        await provider.stop("sb-1")
        told = await deaths.next()
        assert (told.sandbox, told.instance, told.kind, told.cause) == ("sb-1", first, "stopped", "exit")
        second = (await provider.start("sb-1")).instance
        async with engine_client() as docker:
            await docker.containers.container((await provider.target("sb-1")).container).kill()
        told = await deaths.next()
        assert (told.instance, told.kind, told.cause) == (second, "died", "killed")
        await provider.start("sb-1")
        await provider.remove("sb-1")
        assert (await deaths.next()).kind == "stopped"
        assert deaths.is_quiet()


async def test_a_kill_by_nobody_the_engine_knows_is_told_too(tmp_path: Path) -> None:
    async with a_provider(tmp_path) as provider, Deaths(provider) as deaths:
        await provider.create(request())
        started = await provider.start("sb-1")
        os.kill(started.pid, signal.SIGKILL)
        told = await deaths.next()
        assert (told.instance, told.kind, told.cause) == (started.instance, "died", "killed")


async def test_an_end_by_itself_is_an_exit(tmp_path: Path) -> None:
    async with a_sandbox(tmp_path) as provider, Deaths(provider) as deaths:
        await sh(provider, "kill -TERM $(pidof .cloche-idle)")
        told = await deaths.next()
        assert (told.kind, told.cause) == ("died", "exit")
        assert "code 0" in told.detail


async def test_a_death_for_want_of_memory_is_told_apart(tmp_path: Path) -> None:
    async with a_sandbox(tmp_path) as provider, Deaths(provider) as deaths:
        # The sandbox makes its own first process the one that the kernel takes first.
        await sh(provider, "echo 1000 > /proc/1/oom_score_adj; dd if=/dev/zero of=/tmp/f bs=1M")
        told = await deaths.next()
        assert (told.kind, told.cause) == ("died", "oom")


async def test_a_command_that_died_of_memory_long_ago_is_not_blamed_for_a_kill(tmp_path: Path) -> None:
    async with a_sandbox(tmp_path) as provider, Deaths(provider) as deaths:
        await sh(provider, "dd if=/dev/zero of=/tmp/f bs=1M; rm /tmp/f")
        async with engine_client() as docker:
            await docker.containers.container((await provider.target("sb-1")).container).kill()
        assert (await deaths.next()).cause == "killed"


async def test_a_removed_container_is_a_death(tmp_path: Path) -> None:
    async with a_sandbox(tmp_path) as provider, Deaths(provider) as deaths:
        async with engine_client() as docker:
            await docker.containers.container((await provider.target("sb-1")).container).delete(force=True)
        told = await deaths.next()
        assert (told.sandbox, told.kind, told.cause) == ("sb-1", "died", "killed")
        assert (told.end.exit_code, told.end.signal) == (137, 9)
        assert "somebody else" in told.detail
        assert "remove" in told.detail


async def test_a_stop_by_another_process_of_ours_is_no_death(tmp_path: Path) -> None:
    async with a_sandbox(tmp_path) as provider, DockerProvider(tmp_path, engine()) as another:
        first = (await provider.target("sb-1")).instance
        async with Deaths(another) as deaths:

            async def is_noted() -> bool:
                return bool(another._lives.all())

            await until(is_noted, "the listener looked around")
            await provider.stop("sb-1", 0)
            told = await deaths.next()
            assert (told.instance, told.kind) == (first, "stopped")
            seen = await another.inspect("sb-1")
            assert seen is not None
            assert (seen.state, seen.end) == (SandboxState.STOPPED, None)


async def test_a_death_that_nobody_saw_is_explained_by_a_look(tmp_path: Path) -> None:
    async with a_sandbox(tmp_path) as provider:
        target = await provider.target("sb-1")
        async with engine_client() as docker:
            container = docker.containers.container(target.container)
            await container.kill()
            await container.wait()
            seen = await provider.inspect("sb-1")
            assert seen is not None
            assert seen.end is not None
            assert (seen.instance, seen.end.cause, seen.end.signal) == (target.instance, "killed", 9)
            await container.delete(force=True)
        seen = await provider.inspect("sb-1")
        assert seen is not None
        assert seen.end is not None
        assert (seen.instance, seen.end.cause) == (target.instance, "unknown")
        assert seen.end.looked_at


async def test_an_engine_that_is_ended_takes_its_containers_with_it_and_is_told_as_the_cause(tmp_path: Path) -> None:
    async with OwnEngine() as own:
        wanted = spec(docker=Docker(image=await asyncio.to_thread(busybox, own.address)))
        async with a_provider(tmp_path, own.address) as provider, Deaths(provider) as deaths:
            await provider.create(request(wanted=wanted))
            started = await provider.start("sb-1")
            await own.end()
            told = await deaths.next()
            assert (told.instance, told.kind, told.cause) == (started.instance, "died", "engine_lost")
            await own.start()


async def test_what_ran_before_the_listener_came_is_watched_too(tmp_path: Path) -> None:
    async with a_sandbox(tmp_path) as provider:
        target = await provider.target("sb-1")
        async with DockerProvider(tmp_path, engine()) as another, Deaths(another) as deaths:

            async def is_noted() -> bool:
                return another._lives.of(target.container) is not None

            await until(is_noted, "the listener looked around")
            async with engine_client() as docker:
                await docker.containers.container(target.container).kill()
            assert (await deaths.next()).instance == target.instance


async def test_a_blank_that_dies_is_nobodys_death(tmp_path: Path) -> None:
    async with a_sandbox(tmp_path) as provider, Deaths(provider) as deaths:
        await provider.prepare(spec())
        await provider.discard_blanks()
        await provider.stop("sb-1")
        assert (await deaths.next()).sandbox == "sb-1"


async def test_a_killed_engine_is_unavailable_and_its_dead_are_told_when_it_is_back(tmp_path: Path) -> None:
    async with OwnEngine() as own:
        wanted = spec(docker=Docker(image=await asyncio.to_thread(busybox, own.address)))
        async with a_provider(tmp_path, own.address) as provider, Deaths(provider) as deaths:
            await provider.create(request(wanted=wanted))
            started = await provider.start("sb-1")
            await own.kill()
            for order in (provider.inspect, provider.start, provider.stop, provider.stats, provider.remove):
                with pytest.raises(Unavailable):
                    await order("sb-1")
            assert deaths.is_quiet(), "an engine that is gone says nothing about its containers"
            assert await provider.sandboxes() == ("sb-1",)
            await own.start()
            told = await deaths.next()
            assert (told.sandbox, told.instance, told.kind) == ("sb-1", started.instance, "died")
            assert told.cause == "engine_lost"
            inspection = await provider.inspect("sb-1")
            assert inspection is not None
            assert inspection.state is SandboxState.STOPPED
            assert (await provider.start("sb-1")).instance != started.instance
            assert (await sh(provider, "echo back")).out == "back\n"
            await provider.stop("sb-1")
            assert (await deaths.next()).kind == "stopped"


async def test_what_a_stop_could_not_end_is_told_as_a_death(tmp_path: Path) -> None:
    async with OwnEngine() as own:
        wanted = spec(docker=Docker(image=await asyncio.to_thread(busybox, own.address)))
        async with a_provider(tmp_path, own.address) as provider, Deaths(provider) as deaths:
            created = await provider.create(request(wanted=wanted))
            started = await provider.start("sb-1")
            stubborn = asyncio.create_task(sh(provider, "trap '> asked' TERM; > up; while :; do sleep 0.1; done"))
            await until(lambda: there(created, "up"), "something runs that will not end")
            stopping = asyncio.create_task(provider.stop("sb-1", 60))
            await until(lambda: there(created, "asked"), "it was asked to end")
            await own.kill()
            with pytest.raises(Unavailable):
                await stopping
            stubborn.cancel()
            await asyncio.gather(stubborn, return_exceptions=True)
            await own.start()
            told = await deaths.next()
            assert (told.instance, told.kind) == (started.instance, "died")


async def there(created: Created, name: str) -> bool:
    return await asyncio.to_thread(Path(created.host_workspace, name).exists)
