"""A real tool chain at work in a sandbox, and its workspace restored from the log at a hundred moments."""

import asyncio
import random
import subprocess
from pathlib import Path

from infra.blobs.blobs import Blobs
from infra.client import Sandbox
from infra.manifest.history import tree_at
from infra.manifest.restore import restore
from tests.services.node import node_in

MOMENTS = 100
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
COMMIT = "cd clone && echo {n} >> notes.txt && git add . && git commit -qm 'note {n}'"
BRANCH = """
cd clone && git checkout -q -b branch-{n} && git mv notes.txt moved-{n}.txt && git commit -qm 'move {n}'
git checkout -q main
"""
BUILD = 'mkdir -p build/{n}; for k in 1 2 3 4 5; do echo "$k {n}" > build/{n}/$k.o; done; cat build/*/*.o > build/all'
COMPILE = """
mkdir -p pkg{n}; echo 'x = {n}' > pkg{n}/m.py; venv/bin/python -m compileall -q pkg{n}; chmod -R a-w pkg{n}/__pycache__
"""
CLEAN = "rm -rf build; ln -sfn clone/notes.txt latest; ln -sfn /nowhere/{n} dangling"
PACK = "cd clone && git gc -q --prune=now"
ODD = "touch modes; chmod $((400 + {n} % 4 * 100)) modes; mkdir -p odd; touch \"odd/$(printf 'n\\303\\050{n}')\""
LARGE = "head -c 700000 /dev/urandom > new.bin && cp new.bin copy-{n}.bin && mv new.bin moved.bin"
STEPS = (COMMIT, BRANCH, BUILD, COMPILE, CLEAN, PACK, ODD, LARGE)


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


async def test_at_each_of_a_hundred_moments_the_restored_tree_is_what_was_there(tmp_path: Path) -> None:
    await asyncio.to_thread(make_origin, tmp_path / "source" / "origin")
    source = {"kind": "directory", "path": str(tmp_path / "source")}
    async with node_in(tmp_path / "node") as (_, cloche):
        sandbox = await cloche.create({"workspace": {"source": source}})
        await output(sandbox, BEGIN)
        choose = random.Random(4)
        moments: dict[int, bytes] = {}
        for number in range(MOMENTS):
            hashes = await output(sandbox, f"({choose.choice(STEPS).format(n=number)}) && {HASHES}")
            moments[(await sandbox.flush()).sequence] = hashes
        await sandbox.remove()
        assert len(moments) == MOMENTS
        blobs = Blobs(cloche.bus)
        for sequence in choose.sample(sorted(moments), len(moments)):
            found = await tree_at(cloche.bus, blobs, sandbox.id, sequence)
            assert found is not None
            directory = tmp_path / "restored" / str(sequence)
            directory.mkdir(parents=True)
            assert (await restore(found.tree, blobs, directory)).missing == ()
            assert await asyncio.to_thread(seen, directory) == moments[sequence], sequence
