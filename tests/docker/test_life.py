"""The life of a Docker sandbox, where it is Docker's own."""

import asyncio
import os
import stat
import subprocess
from pathlib import Path

import pytest

from contracts.errors import (
    Invalid,
    SandboxCreationFailed,
    SandboxInvalidState,
    SandboxNotFound,
    SandboxStartFailed,
    Unavailable,
)
from contracts.spec import (
    CopyDirectory,
    Environment,
    ForkOf,
    GitWorktree,
    Isolation,
    Network,
    NetworkMode,
    Resources,
    Workspace,
)
from infra.docker import finding
from infra.sandbox.base import SandboxState
from infra.sandbox.docker.checking import check_source
from infra.sandbox.docker.provider import DockerProvider
from infra.sandbox.providers import load_providers, why_not_offered
from tests.docker.containers import (
    a_provider,
    a_sandbox,
    engine_client,
    left_of,
    request,
    run,
    sh,
    spec,
    until,
    with_docker,
)
from tests.images import busybox, debian, shell_less


async def state_of(provider: DockerProvider) -> SandboxState | None:
    inspection = await provider.inspect("sb-1")
    return None if inspection is None else inspection.state


async def test_a_sandbox_goes_through_its_life_and_leaves_nothing(tmp_path: Path) -> None:
    async with a_provider(tmp_path) as provider:
        assert await provider.inspect("sb-1") is None
        created = await provider.create(request())
        assert await state_of(provider) is SandboxState.STOPPED
        started = await provider.start("sb-1")
        inspection = await provider.inspect("sb-1")
        assert inspection is not None
        assert (inspection.instance, inspection.pid) == (started.instance, started.pid)
        await provider.pause("sb-1")
        assert await state_of(provider) is SandboxState.PAUSED
        await provider.resume("sb-1")
        assert (await sh(provider, "echo kept > note")).code == 0
        await provider.stop("sb-1")
        assert await state_of(provider) is SandboxState.STOPPED
        assert (await provider.start("sb-1")).instance != started.instance
        assert Path(created.host_workspace, "note").read_text() == "kept\n"
        await provider.remove("sb-1")
        assert await provider.sandboxes() == ()
    assert await left_of(tmp_path) == ([], [], [])


async def test_every_order_given_twice_is_given_once(tmp_path: Path) -> None:
    async with a_provider(tmp_path) as provider:
        await provider.remove("sb-1")
        first, second = await asyncio.gather(provider.create(request()), provider.create(request()))
        assert first == second
        assert len((await left_of(tmp_path)).containers) == 1
        assert await provider.start("sb-1") == await provider.start("sb-1")
        for order in (provider.pause, provider.resume, provider.stop, provider.remove):
            await order("sb-1")
            await order("sb-1")


async def test_what_is_not_there_or_does_not_run_is_said_so(tmp_path: Path) -> None:
    async with a_provider(tmp_path) as provider:
        for order in (provider.start, provider.stop, provider.stats, provider.target, provider.environment):
            with pytest.raises(SandboxNotFound):
                await order("sb-none")
        await provider.create(request())
        for not_yet in (provider.pause, provider.resume, provider.stats, provider.target):
            with pytest.raises(SandboxInvalidState):
                await not_yet("sb-1")
        with pytest.raises(Invalid):
            await provider.inspect("../x")


async def test_the_host_sees_the_workspace_and_it_belongs_to_the_sandbox_user(tmp_path: Path) -> None:
    async with a_sandbox(tmp_path) as provider:
        workspace = Path((await provider.created("sb-1")).host_workspace)
        assert (await sh(provider, "mkdir 'd ü'; printf 'naïve ☂' > 'd ü/名前'")).code == 0
        assert (workspace / "d ü/名前").read_text() == "naïve ☂"
        (workspace / "from outside").write_text("x")
        assert (await run(provider, "cat", "from outside")).out == "x"
        if os.geteuid() == 0:
            assert workspace.stat().st_uid == 1000
        assert stat.S_IMODE(workspace.parent.stat().st_mode) == 0o700


async def test_a_directory_is_copied_for_the_sandbox_user(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "run.sh").write_text("#!/bin/sh\necho ran\n")
    (source / "run.sh").chmod(0o700)
    wanted = spec(workspace=Workspace(source=CopyDirectory(path=str(source))))
    async with a_sandbox(tmp_path / "data", wanted) as provider:
        assert (await sh(provider, "./run.sh && echo more >> run.sh")).out == "ran\n"
    assert (source / "run.sh").read_text() == "#!/bin/sh\necho ran\n"


async def test_a_repository_becomes_a_branch_of_the_sandboxes_own(tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    git = ("git", "-C", str(repository), "-c", "user.name=a", "-c", "user.email=a@example.org")
    subprocess.run(["git", "init", "--quiet", str(repository)], check=True)
    (repository / "file").write_text("committed\n")
    subprocess.run([*git, "add", "file"], check=True)
    subprocess.run([*git, "commit", "--quiet", "--message", "first"], check=True)
    source = GitWorktree(repository=str(repository))
    wanted = spec(debian(), workspace=Workspace(source=source), agent_id="ada", task_id="t-1")
    async with a_sandbox(tmp_path / "data", wanted) as provider:
        seen = await sh(provider, "cat file; git branch --show-current; git status --porcelain; git log --oneline")
        assert seen.out.startswith("committed\nagent/ada/t-1\n")
        assert seen.out.endswith(" first\n")


async def test_full_is_the_engines_bridge_and_says_so(tmp_path: Path) -> None:
    async with a_provider(tmp_path) as provider, engine_client() as docker:
        created = await provider.create(request(wanted=spec(network=Network(mode=NetworkMode.FULL))))
        (container,) = (await left_of(tmp_path)).containers
        shown = await docker.containers.container(container).show()
        assert shown["HostConfig"]["NetworkMode"] == "bridge"
        assert "bridge" in created.enforcement.network


async def test_a_source_that_cannot_be_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    large = tmp_path / "large"
    large.mkdir()
    with (large / "file").open("wb") as file:
        file.truncate(2 << 30)
    sources = (
        (CopyDirectory(path=str(tmp_path / "data")), Invalid),
        (CopyDirectory(path="/nonexistent"), Invalid),
        (ForkOf(sandbox="x", sequence=1), Invalid),
        (CopyDirectory(path=str(large)), SandboxCreationFailed),
    )
    async with a_provider(tmp_path / "data") as provider:
        for source, error in sources:
            with pytest.raises(error, match=r"workspace\.source"):
                await provider.create(request(wanted=spec(workspace=Workspace(source=source))))
        assert await provider.sandboxes() == ()
        assert await left_of(tmp_path / "data") == ([], [], [])


async def test_the_container_carries_agent_and_sandbox_in_a_name_of_bounded_length(tmp_path: Path) -> None:
    agent, sandbox = "a" * 64, "s" * 64
    async with a_provider(tmp_path) as provider:
        await provider.create(request(sandbox, spec(agent_id=agent)))
        (container,) = (await left_of(tmp_path)).containers
        async with engine_client() as docker:
            name = (await docker.containers.container(container).show())["Name"].lstrip("/")
        assert name.startswith("cloche-aaaa")
        assert f"a-{sandbox}-" in name
        assert len(name) <= 128


async def test_stop_asks_every_command_before_it_kills(tmp_path: Path) -> None:
    async with a_sandbox(tmp_path) as provider:
        workspace = Path((await provider.created("sb-1")).host_workspace)
        script = "trap 'echo asked > answer; exit 0' TERM; touch ready; while :; do sleep 0.05; done"
        command = asyncio.create_task(sh(provider, script))
        await until(lambda: asyncio.to_thread((workspace / "ready").exists), "the command is ready")
        await provider.stop("sb-1")
        assert (workspace / "answer").read_text() == "asked\n"
        await command


async def test_stop_kills_what_does_not_listen(tmp_path: Path) -> None:
    async with a_sandbox(tmp_path) as provider:
        workspace = Path((await provider.created("sb-1")).host_workspace)
        command = asyncio.create_task(sh(provider, "trap '' TERM; touch ready; while :; do sleep 0.05; done"))
        await until(lambda: asyncio.to_thread((workspace / "ready").exists), "the command is ready")
        await provider.stop("sb-1", grace_s=0.2)
        assert await state_of(provider) is SandboxState.STOPPED
        await command


async def test_an_image_without_a_shell_runs_and_is_known_to_have_none(tmp_path: Path) -> None:
    async with a_sandbox(tmp_path, spec(shell_less())) as provider:
        assert (await provider.target("sb-1")).shell is None
        assert (await run(provider, "/bin/id", "-u")).out.strip() == "1000"
        await provider.stop("sb-1")
        assert await state_of(provider) is SandboxState.STOPPED


async def test_a_shell_is_found_where_there_is_one(tmp_path: Path) -> None:
    async with a_sandbox(tmp_path) as provider:
        target = await provider.target("sb-1")
        assert (target.shell, target.user.split(":")[0]) == ("/bin/sh", str(os.geteuid() or 1000))


async def test_the_environment_is_the_images_with_the_policy_over_it(tmp_path: Path) -> None:
    wanted = spec(environment=Environment(passthrough=("TERM", "DB_PASSWORD"), set={"A": "1"}))
    async with a_provider(tmp_path) as provider:
        created = await provider.create(request(wanted=wanted, TERM="xterm", DB_PASSWORD="hunter2", PATH="/host"))
        assert created.env_blocked == ("DB_PASSWORD",)
        env = await provider.environment("sb-1")
        assert (env["A"], env["TERM"], env["HOME"], env["IS_SANDBOXED"]) == ("1", "xterm", "/workspace", "true")
        assert env["PATH"].endswith("/usr/bin:/sbin:/bin")
        await provider.start("sb-1")
        seen = (await run(provider, "env")).out + (await sh(provider, "tr '\\0' '\\n' < /proc/1/environ")).out
        assert "A=1" in seen
        assert "hunter2" not in seen


async def test_a_missing_image_is_named_in_the_error(tmp_path: Path) -> None:
    async with a_provider(tmp_path) as provider:
        with pytest.raises(SandboxCreationFailed, match=r"image localhost:1/no-such:7 .* cannot be pulled"):
            await provider.create(request(wanted=spec("localhost:1/no-such:7")))
        # Nobody waits for a blank, so nothing is pulled for it.
        with pytest.raises(SandboxCreationFailed, match="image localhost:1/no-such:7 is not on this node yet"):
            await provider.prepare(spec("localhost:1/no-such:7"))
        assert await left_of(tmp_path) == ([], [], [])


@pytest.mark.parametrize("image", ["../containers/json?x=", "a b", "-x", "a/../b", "a//b", "x\n"])
async def test_what_is_no_image_name_is_never_asked_for(tmp_path: Path, image: str) -> None:
    async with a_provider(tmp_path) as provider:
        with pytest.raises(Invalid, match=r"docker\.image"):
            await provider.create(request(wanted=spec(image)))


async def test_an_unknown_runtime_is_named_in_the_error(tmp_path: Path) -> None:
    async with a_provider(tmp_path) as provider:
        with pytest.raises(SandboxCreationFailed, match="no-such-runtime"):
            await provider.create(request(wanted=with_docker(runtime="no-such-runtime")))
        assert await left_of(tmp_path) == ([], [], [])


async def test_a_container_that_somebody_removed_is_made_again_with_the_same_workspace(tmp_path: Path) -> None:
    async with a_sandbox(tmp_path) as provider:
        assert (await sh(provider, "echo kept > note")).code == 0
        (container,) = (await left_of(tmp_path)).containers
        async with engine_client() as docker:
            await docker.containers.container(container).delete(force=True)
        inspection = await provider.inspect("sb-1")
        assert inspection is not None
        assert (inspection.state, inspection.detail) == (SandboxState.STOPPED, "its container is gone")
        await provider.start("sb-1")
        assert (await sh(provider, "cat note")).out == "kept\n"


async def test_a_start_that_fails_says_why(tmp_path: Path) -> None:
    async with a_provider(tmp_path) as provider:
        created = await provider.create(request())
        workspace = Path(created.host_workspace)
        workspace.rename(workspace.with_name("elsewhere"))
        workspace.write_text("no directory")
        with pytest.raises(SandboxStartFailed, match="sb-1"):
            await provider.start("sb-1")
        workspace.unlink()


async def test_more_processors_than_the_machine_has_are_all_that_it_has(tmp_path: Path) -> None:
    async with a_provider(tmp_path) as provider:
        created = await provider.create(request(wanted=spec(resources=Resources(cpus=16))))
        if (os.cpu_count() or 1) < 16:
            assert "that the machine has" in created.enforcement.cpus
        await provider.start("sb-1")


async def test_stats_tell_what_runs(tmp_path: Path) -> None:
    async with a_sandbox(tmp_path) as provider:
        before = await provider.stats("sb-1")
        assert (before.oom_kills, before.disk.bytes) == (0, 0)
        assert (await sh(provider, "head -c 50000000 /dev/zero > /tmp/memory; head -c 1000000 /dev/zero > f")).code == 0
        busy = asyncio.create_task(sh(provider, "while :; do :; done"))

        async def has_used_a_tenth_of_a_second() -> bool:
            return (await provider.stats("sb-1")).cpu_seconds > before.cpu_seconds + 0.1

        await until(has_used_a_tenth_of_a_second, "the command is at work")
        after = await provider.stats("sb-1")
        assert after.memory_bytes - before.memory_bytes > 45_000_000
        assert after.disk.bytes >= 1_000_000
        assert after.pids > before.pids
        # Files on the disk are in the page cache, which is no use of memory.
        assert (await sh(provider, "head -c 200000000 /dev/zero > f")).code == 0
        assert (await provider.stats("sb-1")).memory_bytes - after.memory_bytes < 50_000_000
        await provider.stop("sb-1", grace_s=0)
        await busy


async def test_an_engine_that_nobody_answers_for_is_unavailable_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nobody = f"unix://{tmp_path}/nobody.sock"
    provider = DockerProvider(tmp_path, nobody)
    for order in (provider.blanks, provider.sweep, lambda: provider.create(request(wanted=spec(busybox())))):
        with pytest.raises(Unavailable, match=r"nobody\.sock|engine"):
            await order()
    await provider.aclose()
    for address in (nobody, "tcp://127.0.0.1:1"):
        monkeypatch.setenv("DOCKER_HOST", address)
        async with load_providers(tmp_path) as providers:
            assert set(providers) == {"local"}
        assert await why_not_offered("docker", tmp_path) is not None


async def test_sandboxes_of_an_engine_that_is_gone_are_still_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its socket went with it: somebody must be there all the same to tell what became of them."""
    async with a_provider(tmp_path) as provider:
        await provider.create(request())
        monkeypatch.delenv("DOCKER_HOST", raising=False)
        monkeypatch.setattr(finding, "SOCKETS", ("/nobody/listens.sock",))
        async with load_providers(tmp_path) as offered:
            assert Isolation.DOCKER in offered
        async with load_providers(tmp_path / "new") as offered:
            assert Isolation.DOCKER not in offered


def test_the_nodes_own_data_is_no_repository_to_begin_from(tmp_path: Path) -> None:
    source = GitWorktree(repository=str(tmp_path / "containers" / "000000000000" / "workspace"))
    with pytest.raises(Invalid, match="own data directory"):
        check_source(spec(workspace=Workspace(source=source)), "sb-1", tmp_path)
