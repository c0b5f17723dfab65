"""What every provider promises to the commands inside."""

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from contracts.errors import Invalid
from contracts.spec import CopyDirectory, SandboxSpec, Workspace
from tests.conformance.inside import Inside, a_provider, a_sandbox, request, until
from tests.conformance.tiers import TIERS
from tests.devcontainer.rig import write_project
from tests.images import debian

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module", params=TIERS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def inside(name: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Inside]:
    """One of each tier for all tests that leave nothing behind in it."""
    async with a_sandbox(tmp_path_factory.mktemp(name), name=name) as found:
        yield found


async def test_a_command_runs_as_an_ordinary_user_in_the_workspace(inside: Inside) -> None:
    result = await inside.sh("id -u; id -un; pwd; echo $HOME; hostname; echo err >&2; exit 3")
    assert result.out == "1000\nsandbox\n/workspace\n/workspace\nsandbox\n"
    assert (result.err, result.code) == ("err\n", 3)


async def test_the_workspace_may_have_another_name_inside(tmp_path: Path, name: str) -> None:
    async with a_sandbox(tmp_path, SandboxSpec(workspace=Workspace(path="/home/dev/project")), name) as inside:
        result = await inside.sh("pwd; echo $HOME $ALLOWED_ROOT_DIRECTORY; echo x > file")
        assert result.out == "/home/dev/project\n/home/dev/project /home/dev/project\n"
        assert (inside.workspace / "file").read_text() == "x\n"


async def test_files_made_inside_are_there_outside_and_the_other_way_round(inside: Inside) -> None:
    assert (await inside.sh("mkdir 'd ü'; printf 'naïve ☂' > 'd ü/名前'")).ok
    assert (inside.workspace / "d ü/名前").read_text() == "naïve ☂"
    assert (await inside.run("cat", "d ü/名前")).out == "naïve ☂"


async def test_arguments_input_and_output_keep_every_character(inside: Inside) -> None:
    word = "ä\n'\" $HOME *🌱\t"
    assert (await inside.run("printf", "%s", word)).out == word
    assert (await inside.run("cat", stdin="zażółć\0🌱".encode())).out == "zażółć\0🌱"


async def test_commands_share_loopback_and_tmp(inside: Inside) -> None:
    serve = (
        "import socket; s = socket.create_server(('127.0.0.1', 8000)); open('/tmp/ready', 'w'); "
        "c, _ = s.accept(); c.sendall(b'over loopback')"
    )
    server = await inside.start("python3", "-c", serve)
    ask = (
        "import os, socket, time\nwhile not os.path.exists('/tmp/ready'): time.sleep(0.01)\n"
        "print(socket.create_connection(('localhost', 8000)).recv(100).decode())"
    )
    assert (await inside.python(ask)).out == "over loopback\n"
    assert (await server.wait()).ok


async def test_a_background_process_lives_on_after_its_command(inside: Inside) -> None:
    script = "(until [ -e go ]; do sleep 0.01; done; echo late > done) >/dev/null 2>&1 & echo started"
    assert (await inside.sh(script)).out == "started\n"
    assert not (inside.workspace / "done").exists()
    assert (await inside.sh("touch go")).ok
    await until(lambda: (inside.workspace / "done").exists(), "the background process ended")


async def test_a_paused_sandbox_stands_still_and_goes_on_where_it_was(inside: Inside) -> None:
    script = "i=0; while :; do i=$((i+1)); echo $i > count.new; mv count.new count; done"
    counting = await inside.start("/bin/sh", "-c", script)
    count = inside.workspace / "count"
    await until(count.exists, "the counter began")
    await inside.provider.pause("sb-1")
    frozen = count.read_text()
    before = (await inside.provider.stats("sb-1")).cpu_seconds
    # Long enough for thousands of rounds if anything still ran.
    await asyncio.sleep(0.2)
    assert count.read_text() == frozen
    # Init itself is not frozen where there is no freezer, and answers; what was paused would use four times this.
    assert (await inside.provider.stats("sb-1")).cpu_seconds <= before + 0.05
    await inside.provider.resume("sb-1")
    await until(lambda: count.exists() and int(count.read_text() or 0) > int(frozen), "the counter went on")
    await counting.signal(signal.SIGKILL)
    await counting.wait()


async def test_stats_grow_with_what_runs(inside: Inside) -> None:
    before = await inside.provider.stats("sb-1")
    assert before.pids >= 1
    script = "x = bytearray(64 << 20); open('f', 'wb').write(b'1' * 1_000_000); print(flush=True); input()"
    script += "\nwhile True: pass"
    command = await inside.start("python3", "-c", script, stdin=b"\n")
    await until(lambda: command.out == "\n", "the command is at work")
    after = await inside.provider.stats("sb-1")
    assert after.memory_bytes - before.memory_bytes > 60 << 20
    assert after.disk.bytes >= 1_000_000
    while (await inside.provider.stats("sb-1")).cpu_seconds <= before.cpu_seconds + 0.1:
        await asyncio.sleep(0.01)
    await command.signal(signal.SIGKILL)
    await command.wait()
    # Not compared with what was before: what has made the sandbox may not have left it then.
    while (await inside.provider.stats("sb-1")).pids >= after.pids:
        await asyncio.sleep(0.01)


async def test_a_directory_is_copied_with_links_and_modes(tmp_path: Path, name: str) -> None:
    source = tmp_path / "source"
    (source / "sub").mkdir(parents=True)
    if name == "devcontainer":
        write_project(source, {"image": debian()})
    (source / "sub/run.sh").write_text("#!/bin/sh\necho ran\n")
    (source / "sub/run.sh").chmod(0o4755)
    (source / "link").symlink_to("sub/run.sh")
    (source / "outside").symlink_to("/etc/shadow")
    spec = SandboxSpec(workspace=Workspace(source=CopyDirectory(path=str(source))))
    async with a_sandbox(tmp_path / "data", spec, name) as inside:
        result = await inside.sh("./link; readlink outside; stat -c '%a %U' sub/run.sh; echo more >> sub/run.sh")
        assert result.out == "ran\n/etc/shadow\n755 sandbox\n"
        assert result.ok
        assert (inside.workspace / "outside").is_symlink()
    assert (source / "sub/run.sh").read_text() == "#!/bin/sh\necho ran\n"


async def test_the_nodes_own_data_is_never_copied(tmp_path: Path, name: str) -> None:
    async with a_provider(tmp_path / "data", name) as provider:
        for path in (tmp_path, tmp_path / "data", tmp_path / "data/sandboxes"):
            spec = SandboxSpec(workspace=Workspace(source=CopyDirectory(path=str(path))))
            with pytest.raises(Invalid, match="data directory"):
                await provider.create(request("sb-1", spec, on=name))
