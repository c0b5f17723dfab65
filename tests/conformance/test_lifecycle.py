"""What every provider promises about the life of a sandbox."""

import asyncio
from pathlib import Path

import pytest

from contracts.errors import Invalid, SandboxInvalidState, SandboxNotFound
from contracts.spec import (
    DEFAULT_PASSTHROUGH,
    CopyDirectory,
    Environment,
    ForkOf,
    GitWorktree,
    Network,
    NetworkMode,
    SandboxSpec,
    Workspace,
)
from infra.sandbox.base import Provider, SandboxState
from infra.sandbox.providers import load_provider
from tests.conformance.inside import Inside, a_provider, a_sandbox, request, small, until
from tests.conformance.tiers import HAS_A_NETWORK, TIERS

pytestmark = pytest.mark.parametrize("name", TIERS)


async def test_a_sandbox_goes_through_its_life(tmp_path: Path, name: str) -> None:
    async with a_provider(tmp_path, name) as provider:
        assert await provider.inspect("sb-1") is None
        await provider.create(request("sb-1", on=name))
        assert await state_of(provider) is SandboxState.STOPPED
        started = await provider.start("sb-1")
        inspection = await provider.inspect("sb-1")
        assert inspection is not None
        assert (inspection.state, inspection.instance) == (SandboxState.RUNNING, started.instance)
        await provider.pause("sb-1")
        assert await state_of(provider) is SandboxState.PAUSED
        await provider.resume("sb-1")
        assert await state_of(provider) is SandboxState.RUNNING
        await provider.stop("sb-1")
        assert await state_of(provider) is SandboxState.STOPPED
        await provider.remove("sb-1")
        assert await provider.inspect("sb-1") is None
        assert await provider.sandboxes() == ()


async def state_of(provider: Provider, sandbox: str = "sb-1") -> SandboxState | None:
    inspection = await provider.inspect(sandbox)
    return None if inspection is None else inspection.state


async def test_every_order_given_twice_succeeds_and_changes_nothing(tmp_path: Path, name: str) -> None:
    async with a_provider(tmp_path, name) as provider:
        await provider.remove("sb-1")
        assert await provider.create(request("sb-1", on=name)) == await provider.create(request("sb-1", on=name))
        first, second = await provider.start("sb-1"), await provider.start("sb-1")
        assert first == second
        for order in (provider.pause, provider.resume, provider.stop, provider.remove):
            await order("sb-1")
            await order("sb-1")


async def test_orders_at_the_same_time_are_taken_one_after_the_other(tmp_path: Path, name: str) -> None:
    async with a_provider(tmp_path, name) as provider:
        await asyncio.gather(*(provider.create(request("sb-1", on=name)) for _ in range(4)))
        started = await asyncio.gather(*(provider.start("sb-1") for _ in range(4)))
        assert len({each.instance for each in started}) == 1
        await asyncio.gather(provider.stop("sb-1"), provider.remove("sb-1"), provider.remove("sb-1"))
        assert await provider.inspect("sb-1") is None


async def test_an_unknown_sandbox_is_not_found(tmp_path: Path, name: str) -> None:
    async with a_provider(tmp_path, name) as provider:
        orders = (provider.start, provider.stop, provider.pause, provider.resume, provider.stats)
        for order in (*orders, provider.target, provider.environment, provider.disk_usage, provider.created):
            with pytest.raises(SandboxNotFound):
                await order("sb-none")


async def test_an_id_that_is_no_token_never_becomes_a_path(tmp_path: Path, name: str) -> None:
    async with a_provider(tmp_path, name) as provider:
        for bad in ("", "..", ".trash", "a/b", "../x", "a\n", "x" * 65):
            for order in (provider.inspect, provider.remove, provider.start):
                with pytest.raises(Invalid):
                    await order(bad)


async def test_what_does_not_run_cannot_be_paused_resumed_or_measured(tmp_path: Path, name: str) -> None:
    async with a_provider(tmp_path, name) as provider:
        await provider.create(request("sb-1", on=name))
        for order in (provider.pause, provider.resume, provider.stats, provider.target):
            with pytest.raises(SandboxInvalidState):
                await order("sb-1")


async def test_each_start_is_a_new_instance_with_the_same_workspace(tmp_path: Path, name: str) -> None:
    async with a_sandbox(tmp_path, name=name) as inside:
        first = (await inside.provider.target("sb-1")).instance
        assert (await inside.sh("echo kept > note; echo gone > /tmp/note")).ok
        await inside.provider.stop("sb-1")
        await inside.begin()
        assert (await inside.provider.target("sb-1")).instance != first
        assert (await inside.sh("cat note; cat /tmp/note")).out == "kept\n"


async def test_a_paused_sandbox_can_be_stopped(tmp_path: Path, name: str) -> None:
    async with a_sandbox(tmp_path, name=name) as inside:
        await inside.start("sleep", "1000")
        await inside.provider.pause("sb-1")
        await inside.provider.stop("sb-1", grace_s=5)
        assert await state_of(inside.provider) is SandboxState.STOPPED


async def test_stop_asks_before_it_kills(tmp_path: Path, name: str) -> None:
    async with a_sandbox(tmp_path, name=name) as inside:
        script = "trap 'echo asked > answer; exit 0' TERM; echo ready; while :; do sleep 0.05; done"
        command = await inside.start("/bin/sh", "-c", script)
        await until(lambda: "ready" in command.out, "the command is ready")
        await inside.provider.stop("sb-1")
        assert (inside.workspace / "answer").read_text() == "asked\n"


async def test_stop_kills_what_does_not_listen(tmp_path: Path, name: str) -> None:
    async with a_sandbox(tmp_path, name=name) as inside:
        command = await inside.start("/bin/sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.05; done")
        await until(lambda: "ready" in command.out, "the command is ready")
        await inside.provider.stop("sb-1", grace_s=0.2)
        assert await state_of(inside.provider) is SandboxState.STOPPED


async def test_removal_in_the_middle_of_a_command_ends_both(tmp_path: Path, name: str) -> None:
    async with a_sandbox(tmp_path, name=name) as inside:
        await inside.start("/bin/sh", "-c", "while :; do mkdir -p a/b/c; date > a/b/c/$$; done")
        await inside.provider.remove("sb-1")
        assert await inside.provider.inspect("sb-1") is None
        assert not inside.workspace.exists()


async def test_fifty_sandboxes_start_at_once_and_see_only_themselves(tmp_path: Path, name: str) -> None:
    async with a_provider(tmp_path, name) as provider:

        async def one(number: int) -> str:
            await provider.create(request(f"sb-{number}", small(), on=name))
            inside = await Inside(provider, f"sb-{number}").begin()
            return (await inside.sh(f"echo {number} > me; sleep 0.1; cat me; hostname; ls | wc -l")).out

        outputs = await asyncio.gather(*(one(number) for number in range(50)))
        assert outputs == [f"{number}\nsandbox\n1\n" for number in range(50)]


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (SandboxSpec(workspace=Workspace(source=ForkOf(sandbox="x", sequence=1))), "a fork is not available"),
        (SandboxSpec(workspace=Workspace(source=GitWorktree(repository="/nonexistent"))), "does not exist"),
        (SandboxSpec(workspace=Workspace(source=CopyDirectory(path="/nonexistent"))), "cannot copy"),
        (SandboxSpec(workspace=Workspace(path="/usr/x")), "workspace.path"),
        (SandboxSpec(workspace=Workspace(path="/work/../etc")), "workspace.path"),
    ],
)
async def test_what_cannot_be_honoured_is_refused_with_words(
    tmp_path: Path, name: str, spec: SandboxSpec, words: str
) -> None:
    async with a_provider(tmp_path, name) as provider:
        with pytest.raises(Invalid, match=words):
            await provider.create(request("sb-1", spec, on=name))


async def test_a_network_is_refused_where_there_is_none(tmp_path: Path, name: str) -> None:
    async with a_provider(tmp_path, name) as provider:
        asked = request("sb-1", SandboxSpec(network=Network(mode=NetworkMode.FULL)), on=name)
        if name in HAS_A_NETWORK:
            assert (await provider.create(asked)).enforcement.network
        else:
            with pytest.raises(Invalid, match="no network"):
                await provider.create(asked)


async def test_created_says_what_was_passed_and_what_was_refused(tmp_path: Path, name: str) -> None:
    async with a_provider(tmp_path, name) as provider:
        wanted = (*DEFAULT_PASSTHROUGH, "DB_PASSWORD")
        spec = SandboxSpec(environment=Environment(passthrough=wanted, set={"A": "1"}))
        created = await provider.create(request("sb-1", spec, DB_PASSWORD="hunter2", TERM="xterm", on=name))
        assert created.env_blocked == ("DB_PASSWORD",)
        assert {"A", "TERM", "IS_SANDBOXED"} <= set(created.env_passed)
        assert "hunter2" not in repr(created)
        assert created == await provider.created("sb-1")


async def test_an_unknown_provider_is_refused_with_the_known_names(tmp_path: Path, name: str) -> None:
    with pytest.raises(Invalid, match=name):
        load_provider("no-such", tmp_path)
