"""Worktrees on a real node: asked for over the bus, from the command line, across kills, until the removal."""

import json
import os
import pty
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from contracts.errors import Conflict, Invalid, SandboxInvalidState, SandboxNotFound
from contracts.worktrees import MAX_DIFF_BYTES
from infra.client import Cloche, Sandbox
from services.cli.diff_colours import coloured
from tests.cli.shell import PATIENCE_S, up_in
from tests.services.node import Node, node_in
from tests.worktree.repositories import a_repository, belongings, git

Running = tuple[Node, Cloche]


def spec(repository: Path, **given: object) -> dict[str, Any]:
    source = {"kind": "git", "repository": str(repository)}
    small = {"memory_mb": 512, "disk_mb": 1024}
    return {"isolation": "local", "resources": small, "workspace": {"source": source}, **given}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    """One for all tests; each has sandboxes of its own."""
    async with node_in(tmp_path_factory.mktemp("node")) as found:
        yield found


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return a_repository(tmp_path / "source")


async def reason_of_removal(sandbox: Sandbox) -> str:
    (removed,) = [event async for event in sandbox.events(types=["sandbox.removed"])]
    return str(json.loads(removed.raw)["data"]["reason"])


async def source_on_record(sandbox: Sandbox) -> tuple[str, str]:
    (creating,) = [event async for event in sandbox.events(types=["sandbox.creating"])]
    source = json.loads(creating.raw)["data"]["spec"]["workspace"]["source"]
    return source["ref"], source["branch"]


@pytest.mark.asyncio(loop_scope="module")
async def test_work_goes_out_and_comes_home_and_leaves_the_repository_clean(running: Running, repository: Path) -> None:
    before = belongings(repository)
    node, cloche = running
    sandbox = await cloche.create(spec(repository, agent_id="ada", task_id="t7"), id="sb-1")
    base = git(repository, "rev-parse", "HEAD")
    assert await source_on_record(sandbox) == (base, "agent/ada/t7")
    assert (await sandbox.diff()).data == b""
    await sandbox.run("echo two > a.txt; printf '\\377' > new; git commit -qam 'by ada'")
    found = await sandbox.diff()
    assert (found.base, found.branch, found.truncated) == (base, "agent/ada/t7", False)
    assert b"-one\n+two\n" in found.data
    assert b"a.txt | 2 +-\n" in (await sandbox.diff(stat=True)).data
    await node.restart("spawner")
    made = await sandbox.commit("by cloche")
    assert made.commit == made.brought == git(repository, "rev-parse", "agent/ada/t7")
    assert (made.branch, made.repository) == ("agent/ada/t7", str(repository))
    inside = await sandbox.run("git log --format=%s; git status --porcelain")
    assert inside.stdout == b"by cloche\nby ada\nfirst\n"
    await sandbox.stop()
    assert (await sandbox.diff(stat=True)).data.endswith(b" 2 files changed, 2 insertions(+), 1 deletion(-)\n")
    again = await sandbox.commit("nothing")
    assert (again.commit, again.brought) == (None, made.commit)
    await sandbox.remove()
    assert await reason_of_removal(sandbox) == "asked"
    with pytest.raises(SandboxInvalidState, match="is removed"):
        await sandbox.diff()
    git(repository, "branch", "--quiet", "-D", "agent/ada/t7")
    after = belongings(repository)
    for what in ("refs", "worktrees", "config", "status"):
        assert after[what] == before[what]


@pytest.mark.asyncio(loop_scope="module")
async def test_a_removal_brings_what_was_committed_and_nothing_otherwise(running: Running, repository: Path) -> None:
    before = belongings(repository)
    node, cloche = running
    idle = await cloche.create(spec(repository), id="idle")
    await idle.run("echo uncommitted > a.txt")
    await idle.remove()
    assert belongings(repository) == before
    busy = await cloche.create(spec(repository), id="busy")
    await busy.run("echo two > a.txt; git commit -qam kept; echo three > a.txt")
    await busy.remove()
    assert git(repository, "log", "--format=%s", "agent/agent/busy").splitlines() == ["kept", "first"]
    lost = await cloche.create(spec(repository), id="lost")
    await lost.run("echo two > a.txt; git commit -qam lost; rm -rf .git/objects")
    await lost.remove()
    assert "; its commits could not be brought to" in await reason_of_removal(lost)
    assert [each for each in ("idle", "busy", "lost") if (node.data / "sandboxes" / each).exists()] == []


@pytest.mark.asyncio(loop_scope="module")
async def test_what_cannot_be_done_is_an_answer_in_clear_words(running: Running, repository: Path) -> None:
    _, cloche = running
    with pytest.raises(Invalid, match="does not exist"):
        await cloche.create(spec(repository.parent / "nowhere"), id="none")
    with pytest.raises(SandboxNotFound):
        await cloche.sandbox("none")
    plain = await cloche.create({"isolation": "local"}, id="plain")
    with pytest.raises(Invalid, match="has no git repository"):
        await plain.diff()
    sandbox = await cloche.create(spec(repository, workspace={"source": {**_source(repository), "branch": "b"}}))
    await _refusals(cloche, sandbox)
    git(repository, "checkout", "--quiet", "-b", "b")
    await sandbox.run("echo two > a.txt")
    with pytest.raises(Conflict, match="checked out"):
        await sandbox.commit("mine")
    await sandbox.run("yes 0123456789 | head -c 2000000 > z.txt; yes $(printf '\\033') | head -c 600000 > b.txt")
    found = await sandbox.diff()
    assert found.truncated
    assert len(found.data) <= MAX_DIFF_BYTES
    assert found.data.endswith(b"\n")


def _source(repository: Path) -> dict[str, str]:
    return {"kind": "git", "repository": str(repository)}


async def _refusals(cloche: Cloche, sandbox: Sandbox) -> None:
    with pytest.raises(Invalid, match="message"):
        await sandbox.commit("")
    with pytest.raises(Invalid, match="a commit needs a message"):
        await sandbox.commit(" \n")
    for verb, body, words in (
        ("push", b"", "unknown request 'push'"),
        ("diff", b"{", "not a valid DiffWorktree"),
        ("diff", b'{"x":1}', "unknown field"),
        ("commit", b"{}", "message"),
    ):
        raw = await cloche.bus.request(f"cloche.rpc.local.{sandbox.id}.git.{verb}", body)
        failure = json.loads(raw.data)["failure"]
        assert (failure["code"], words in failure["message"]) == ("INVALID", True), failure
    raw = await cloche.bus.request("cloche.rpc.local.nobody.git.diff", b"")
    assert json.loads(raw.data)["failure"]["code"] == "SANDBOX_NOT_FOUND"


def test_diff_and_commit_from_the_command_line(repository: Path, tmp_path: Path) -> None:
    base = git(repository, "rev-parse", "HEAD")
    with up_in(tmp_path / "data") as cloche:
        source = ["--set", f"workspace.source={json.dumps(_source(repository))}", "--isolation", "local"]
        assert cloche("create", "--id", "box", *source).code == 0
        assert cloche("diff", "box") == (0, b"", b"")
        nothing = cloche("commit", "box", "-m", "nothing")
        assert (nothing.code, nothing.out) == (0, b"")
        assert nothing.err.startswith(b"nothing to commit")
        cloche("exec", "box", "--", "sh", "-c", "echo two > a.txt; printf 'x\\033[2J\\n' > esc")
        shown = cloche("diff", "box")
        assert b"-one\n+two\n" in shown.out
        assert b"+x\x1b[2J\n" in shown.out
        assert cloche("diff", "--stat", "box").out.endswith(b" 2 files changed, 2 insertions(+), 1 deletion(-)\n")
        on_terminal = on_a_terminal(cloche.argv("diff", "box"), cloche.env)
        assert b"\x1b[32m+two\x1b[0m" in on_terminal
        assert b"\x1b[2J" not in on_terminal
        said = cloche("commit", "box", "-m", "from outside")
        tip = git(repository, "rev-parse", "agent/agent/box")
        assert (said.code, said.out.decode()) == (0, f"{tip} agent/agent/box {repository}\n")
        assert git(repository, "log", "--format=%s", f"{base}..{tip}") == "from outside"
        cloche("exec", "box", "--", "sh", "-c", "yes | head -c 2000000 > large.txt")
        large = cloche("diff", "box")
        assert (large.code, large.err.startswith(b"cloche: truncated after ")) == (0, True)
        wrong = ["--set", "workspace.source.kind=git", "--set", f"workspace.source.repository={repository}"]
        refused = cloche("create", *wrong, "--set", "workspace.source.ref=nowhere", "--isolation", "local")
        assert (refused.code, refused.out) == (2, b"")
        assert refused.err.decode() == f"cloche: workspace.source: ref 'nowhere' names no commit of {repository}\n"
        assert (
            cloche("commit", "nobody", "-m", "x").err
            == b"cloche: there is no sandbox 'nobody': see `cloche ps --all`\n"
        )


def on_a_terminal(argv: list[str], env: dict[str, str]) -> bytes:
    ours, theirs = pty.openpty()
    with subprocess.Popen(argv, stdin=theirs, stdout=theirs, stderr=theirs, env=env) as process:
        os.close(theirs)
        said = b""
        try:
            while part := os.read(ours, 65_536):
                said += part
        except OSError:  # Linux says EIO when the other side is closed
            pass
        assert process.wait(PATIENCE_S) == 0
    os.close(ours)
    return said


def test_colours_are_ours_and_nothing_else_moves_the_cursor() -> None:
    shown = coloured(b"diff --git a/x b/x\n@@ -1 +1 @@\n-a\r\n+b\x1b]0;x\x07\t\xc2\x9b\n c\xff\n")
    assert shown.count(b"\x1b[0m") == 4
    assert not any(control in shown for control in (b"\r", b"\x07", b"\x1b]", b"\xc2\x9b"))
