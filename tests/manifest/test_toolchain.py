"""A real tool chain at work in a sandbox, and its workspace restored from the log at a hundred moments."""

import asyncio
import random
import subprocess
from itertools import count
from pathlib import Path

from contracts import codec
from contracts.changes import apply
from contracts.events.file import EntryKind
from contracts.manifest import Tree
from infra.blobs.blobs import Blobs
from infra.bus.reader import bounds
from infra.client import Cloche, Sandbox
from infra.log.live import LiveView
from infra.manifest.history import TreeAt, tree_at
from infra.manifest.restore import restore
from tests.services.node import node_in

MOMENTS = 100
FLUSHED = 50
"""Of them: the others are told without being asked for."""
PAUSES = 0.4
"""After so many of the commands of the program."""
PATIENCE_S = 60.0
HASHES = r"""
( find . -mindepth 1 -type f -printf 'f %m %T@ %p\n' -o -type d -printf 'd %m %p\n' \
    -o -type l -printf 'l %T@ %p -> %l\n'
find . -type f -exec sha256sum {} + ) | sed 's/\(\.[0-9]\{6\}\)[0-9]* /\1 /' | LC_ALL=C sort
"""
"""Everything that a restored tree has to have in common with what was there, times to the microsecond."""

BEGIN = """
set -e
git clone -q /workspace/origin clone && rm -rf origin
python3 -m venv --without-pip venv
cd clone && git config user.email a@example.org && git config user.name a
"""
COMMIT = ("echo {n} >> clone/notes.txt", "git -C clone add .", "git -C clone commit -qm 'note {n}'")
BRANCH = (
    "git -C clone checkout -q -b branch-{n}",
    "git -C clone mv notes.txt moved-{n}.txt",
    "git -C clone commit -qm 'move {n}'",
    "git -C clone checkout -q main",
)
BUILD = (
    "mkdir -p build/{n}",
    'for k in 1 2 3 4 5; do echo "$k {n}" > build/{n}/$k.o; done',
    "cat build/*/*.o > build/all",
)
COMPILE = (
    "mkdir -p pkg{n}; echo 'x = {n}' > pkg{n}/m.py",
    "venv/bin/python -m compileall -q pkg{n}",
    "chmod -R a-w pkg{n}/__pycache__",
)
CLEAN = ("rm -rf build", "ln -sfn clone/notes.txt latest", "ln -sfn /nowhere/{n} dangling")
PACK = ("git -C clone gc -q --prune=now",)
ODD = ("touch modes; chmod $((400 + {n} % 4 * 100)) modes", "mkdir -p odd; touch \"odd/$(printf 'n\\303\\050{n}')\"")
LARGE = ("head -c 700000 /dev/urandom > new.bin", "cp new.bin copy-{n}.bin", "mv new.bin moved.bin")
STEPS = (COMMIT, BRANCH, BUILD, COMPILE, CLEAN, PACK, ODD, LARGE)
PAUSE = "hashes; echo '{end}'; read -r go"
END = "== it pauses"


async def output(sandbox: Sandbox, script: str) -> bytes:
    result = await sandbox.run(script)
    assert result.exit_code == 0, result
    return result.stdout


def make_origin(directory: Path) -> None:
    """A repository with some history and many files."""
    directory.mkdir(parents=True)
    for number in range(60):
        file = directory / f"part{number % 10}" / f"file{number}.txt"
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"{number}\n" * number)
    (directory / "notes.txt").write_text("begun\n")
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    for argv in (("init", "-q", "-b", "main"), ("add", "."), (*identity, "commit", "-qm", "begun")):
        subprocess.run(("git", "-C", str(directory), *argv), check=True)


def seen(directory: Path) -> bytes:
    return subprocess.run(("sh", "-c", HASHES), cwd=directory, check=True, stdout=subprocess.PIPE).stdout


def lines_of(tree: Tree) -> bytes:
    """A tree of the log as `HASHES` prints it."""
    lines: list[bytes] = []
    for path, entry in tree.items():
        seconds, micros = divmod(entry.mtime_us or 0, 1_000_000)
        time = f"{seconds}.{micros:06}"
        match entry.kind:
            case EntryKind.DIRECTORY:
                lines.append(f"d {entry.mode:o} ./".encode() + path)
            case EntryKind.SYMLINK:
                lines.append(f"l {time} ./".encode() + path + b" -> " + entry.target)
            case _:
                lines.append(f"f {entry.mode:o} {time} ./".encode() + path)
                lines.append(f"{entry.sha256}  ./".encode() + path)
    return b"\n".join(sorted(lines)) + b"\n"


class Told:
    """What the watcher has told by itself, as it tells it."""

    def __init__(self, sandbox: Sandbox, known: TreeAt) -> None:
        self._tree = known.tree
        self._workspace = known.workspace
        self._sequence = known.sequence
        self._events = sandbox.events(known.sequence + 1, types=["file"], follow=True)

    async def until(self, hashes: bytes) -> int:
        """The sequence at which the log has what was there."""
        while lines_of(self._tree) != hashes:
            event = await anext(self._events)
            fact = codec.decode_fact(event.head)
            assert fact is not None
            apply(self._tree, fact, self._workspace)
            self._sequence = event.sequence
        return self._sequence


def program(choose: random.Random) -> str:
    """The tool chain at work; it pauses at moments of its own, also between the commands of a step."""
    lines = [f"hashes() {{ {HASHES.strip()}\n}}"]
    pauses = 0
    for number in count(FLUSHED):
        for command in choose.choice(STEPS):
            lines.append(f"( {command.format(n=number)} ) || exit 1")
            if choose.random() < PAUSES:
                lines.append(PAUSE.format(end=END))
                pauses += 1
                if pauses == MOMENTS - FLUSHED:
                    return "\n".join(lines)
    raise AssertionError


async def flushed(sandbox: Sandbox, choose: random.Random) -> dict[int, bytes]:
    """Moments at which the watcher was asked to tell everything."""
    moments: dict[int, bytes] = {}
    for number in range(FLUSHED):
        step = " && ".join(f"( {command} )" for command in choose.choice(STEPS)).format(n=number)
        hashes = await output(sandbox, f"{step} && {HASHES}")
        moments[(await sandbox.flush()).sequence] = hashes
    return moments


async def unasked(cloche: Cloche, sandbox: Sandbox, choose: random.Random) -> dict[int, bytes]:
    """Moments in between, any of those from which on the log had what was there until it changed again."""
    known = await tree_at(LiveView(cloche.bus), sandbox.id)
    assert known is not None
    told = Told(sandbox, known)
    moments: dict[int, bytes] = {}
    running = await sandbox.start(program(choose), stdin=True)
    said = b""
    async for chunk in running.output():
        said += chunk.data
        if said.endswith(f"{END}\n".encode()):
            hashes = said.removesuffix(f"{END}\n".encode())
            async with asyncio.timeout(PATIENCE_S):
                since = await told.until(hashes)
            # Where nothing changed since the last pause, it is another moment all the same.
            since = max([since, *(sequence + 1 for sequence in moments)])
            moments[choose.randint(since, (await bounds(cloche.bus)).last)] = hashes
            said = b""
            await running.write(b"go on\n")
    assert running.result is not None
    assert running.result.exit_code == 0, said
    return moments


async def test_at_each_of_a_hundred_moments_the_restored_tree_is_what_was_there(tmp_path: Path) -> None:
    await asyncio.to_thread(make_origin, tmp_path / "source" / "origin")
    source = {"kind": "directory", "path": str(tmp_path / "source")}
    async with node_in(tmp_path / "node") as (_, cloche):
        sandbox = await cloche.create({"workspace": {"source": source}})
        await output(sandbox, BEGIN)
        choose = random.Random(4)
        moments = {**await flushed(sandbox, choose), **await unasked(cloche, sandbox, choose)}
        await sandbox.remove()
        assert len(moments) == MOMENTS
        blobs = Blobs(cloche.bus)
        for sequence in choose.sample(sorted(moments), len(moments)):
            found = await tree_at(LiveView(cloche.bus), sandbox.id, sequence)
            assert found is not None
            directory = tmp_path / "restored" / str(sequence)
            directory.mkdir(parents=True)
            assert (await restore(found.tree, blobs, directory)).missing == ()
            assert await asyncio.to_thread(seen, directory) == moments[sequence], sequence
