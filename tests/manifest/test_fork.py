"""A sandbox that begins as another one was: on a whole node, through the client."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from contracts.errors import Invalid, SandboxCreationFailed
from contracts.events.file import EntryKind, FileReady
from contracts.manifest import Entry, Tree
from contracts.spec import ForkOf, SandboxSpec, Workspace
from infra.blobs.blobs import Blobs
from infra.client import Sandbox
from infra.sandbox.providers import load_providers
from services.spawner.forks import Forks
from tests.bus.servers import nats_in
from tests.images import busybox, require_docker
from tests.manifest.disk import taken
from tests.manifest.story import Story
from tests.services.node import Node, node_in, settings_in

MAKE = r"""
set -e
mkdir -p src/deep empty; printf 'print(1)\n' > src/main.py; chmod 755 src/main.py
head -c 700000 /dev/urandom > src/deep/large; : > nothing
ln -s src/main.py link; ln -s /etc/passwd out; printf x > "$(printf 'caf\351')"
printf secret > closed; chmod 000 closed; chmod 711 empty
"""
CHANGE = "rm -rf src/deep; printf 'print(2)\n' > src/main.py; mkdir later; mv nothing later/; chmod 700 empty"


def fork_of(sandbox: Sandbox, sequence: int, **fields: Any) -> dict[str, Any]:
    source = {"kind": "fork", "sandbox": sandbox.id, "sequence": sequence}
    return {"workspace": {"source": source, **fields}}


async def run(sandbox: Sandbox, script: str) -> None:
    result = await sandbox.run(script)
    assert result.exit_code == 0, result


async def on_disk(node: Node, sandbox: Sandbox) -> Tree:
    async with load_providers(node.data) as providers:
        created = await providers[sandbox.state.isolation].created(sandbox.id)
    return await asyncio.to_thread(taken, Path(created.host_workspace))


async def test_the_past_is_read_and_forked_as_it_was_on_disk_also_after_the_sandbox_is_gone(tmp_path: Path) -> None:
    async with node_in(tmp_path) as (node, cloche):
        sandbox = await cloche.create()
        moments: dict[int, Tree] = {}
        for script in (MAKE, CHANGE):
            await run(sandbox, script)
            sequence = (await sandbox.flush()).sequence
            moments[sequence] = await on_disk(node, sandbox)
        await sandbox.remove()
        for number, (sequence, tree) in enumerate(moments.items()):
            past = await sandbox.history.tree(sequence)
            assert (past.sequence, past.workspace, past.tree) == (sequence, "/workspace", tree)
            fork = await cloche.create(fork_of(sandbox, sequence, path="/elsewhere"), id=f"fork-{number}")
            assert await on_disk(node, fork) == tree
            assert (await fork.run("cat src/main.py")).stdout == b"print(%d)\n" % (number + 1)
            assert (await fork.run("printf more >> src/main.py && cat closed 2>&1; id -u; stat -c %u link")).stdout
            (note,) = fork.state.notes
            assert note.startswith(f"workspace: {len(tree)} entries")
            assert (await sandbox.history.read("src/main.py", sequence)) == b"print(%d)\n" % (number + 1)
        with pytest.raises(Invalid, match="on record"):
            await cloche.create(fork_of(sandbox, sandbox.state.first_sequence))


async def test_a_fork_may_live_in_another_tier_than_what_it_is_a_fork_of(tmp_path: Path) -> None:
    require_docker()
    async with node_in(tmp_path) as (node, cloche):
        sandbox = await cloche.create()
        await run(sandbox, MAKE)
        sequence = (await sandbox.flush()).sequence
        tree = await on_disk(node, sandbox)
        image = {"isolation": "docker", "docker": {"image": busybox()}}
        fork = await cloche.create({**fork_of(sandbox, sequence), **image})
        assert await on_disk(node, fork) == tree
        await run(fork, "chmod 400 closed && cat closed src/main.py && printf more >> src/main.py && rm -r src/deep")
        back = await cloche.create(fork_of(fork, (await fork.flush()).sequence))
        assert (await back.run("cat src/main.py; ls src")).stdout == b"print(1)\nmoremain.py\n"


async def refused(forks: Forks, source: ForkOf, words: str) -> None:
    with pytest.raises(Invalid, match=words):
        await forks.check(SandboxSpec(workspace=Workspace(source=source)))


async def test_a_fork_of_what_is_not_on_record_or_too_large_is_refused(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        story = Story(Blobs(await server.connect("file_watcher")))
        forks = Forks(await server.connect("spawner"), settings_in(server.data))
        before = await story.tell(FileReady(files=0))
        story.tree = {
            b"large": Entry(path="large", kind=EntryKind.FILE, size=1 << 30, mode=0o644, blob="0" * 64),
            b"sparse": Entry(path="sparse", kind=EntryKind.FILE, size=1 << 50, mode=0o644),
        }
        large = ForkOf(sandbox="sb", sequence=await story.ready())
        await refused(forks, ForkOf(sandbox="sb", sequence=before), "on record")
        await refused(forks, ForkOf(sandbox="other", sequence=large.sequence), "on record")
        await refused(forks, ForkOf(sandbox="sb", sequence=large.sequence + 1), "the log ends")
        spec = SandboxSpec(workspace=Workspace(source=large))
        await forks.check(spec)
        fill = forks.fill("new", spec)
        assert fill is not None
        (tmp_path / "is").mkdir()
        with pytest.raises(SandboxCreationFailed, match="disk_mb"):
            await asyncio.to_thread(fill, tmp_path / "is", None, (1 << 30) - 1)
        await asyncio.to_thread(fill, tmp_path / "is", None, 1 << 30)
        first, *others = forks.take_notes("new")
        assert first.startswith("workspace: 0 entries")
        assert sorted(each.split(":")[1] for each in others) == [" large", " sparse"]
        assert forks.take_notes("new") == ()


async def test_many_forks_at_once_do_not_wait_for_each_others_threads(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        story = Story(Blobs(await server.connect("file_watcher")))
        for _ in range(10):
            await story.step()
        forks = Forks(await server.connect("spawner"), settings_in(server.data))
        spec = SandboxSpec(workspace=Workspace(source=ForkOf(sandbox="sb", sequence=await story.ready())))
        names = [f"fork-{number}" for number in range(40)]

        async def make(name: str) -> None:
            fill = forks.fill(name, spec)
            assert fill is not None
            (tmp_path / name).mkdir()
            await asyncio.to_thread(fill, tmp_path / name, None, 1 << 20)

        await asyncio.gather(*map(make, names))
        trees = [taken(tmp_path / name) for name in names]
        assert trees[0]
        assert all(tree == trees[0] for tree in trees)
