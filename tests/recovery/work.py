"""Work in a sandbox, and its workspace as it is on disk."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

from contracts import codec, subjects
from contracts.manifest import Tree
from contracts.message import Fact
from contracts.proof import Finding, Proof
from infra.bus import reader
from infra.client import Cloche, Sandbox
from infra.keeper.client import KeeperClient
from infra.sandbox.providers import load_provider, load_providers
from tests.manifest.disk import taken

MAKE = r"""
set -e
mkdir -p src/deep empty; printf 'print(1)\n' > src/main.py; chmod 755 src/main.py
head -c 300000 /dev/urandom > src/deep/large; : > nothing
ln -s src/main.py link; printf x > "$(printf 'caf\351')"; chmod 711 empty
"""


async def work(sandbox: Sandbox) -> None:
    done = await sandbox.run(MAKE)
    assert done.exit_code == 0, done


async def host_workspace(data: Path, sandbox: Sandbox) -> Path:
    async with load_provider(sandbox.state.isolation, data) as provider:
        return Path((await provider.created(sandbox.id)).host_workspace)


async def on_disk(data: Path, sandbox: Sandbox) -> Tree:
    return await asyncio.to_thread(taken, await host_workspace(data, sandbox))


async def first_process(data: Path, sandbox: Sandbox) -> int:
    async with load_provider(sandbox.state.isolation, data) as provider:
        seen = await provider.inspect(sandbox.id)
    assert seen is not None
    assert seen.pid is not None
    return seen.pid


async def kill(data: Path, sandbox: Sandbox) -> None:
    os.kill(await first_process(data, sandbox), signal.SIGKILL)


async def whereabouts(data: Path) -> list[str]:
    """Every sandbox that something of is on this node."""
    async with load_providers(data) as providers:
        return [f"{name}:{each}" for name, provider in providers.items() for each in await provider.sandboxes()]


async def facts(sandbox: Sandbox, tag: str, *, follow: bool = False) -> AsyncIterator[Fact]:
    async for event in sandbox.events(types=[tag], follow=follow):
        fact = codec.decode_fact(event.head)
        assert fact is not None
        yield fact


async def faults(cloche: Cloche, sandbox: Sandbox) -> tuple[Finding, ...]:
    """What the log does not prove of the sandbox's commands: a second end, bytes after it, wrong totals."""
    proof = Proof()
    async for entry in reader.read(cloche.bus, subjects.events_of(sandbox.id), 1, follow=False):
        proof.feed(entry.seq, codec.decode_head(entry.data))
    return proof.summary().findings


async def has_no_records(data: Path) -> bool:
    """Everything that its keeper held is told, and forgotten."""
    async with await KeeperClient.connect(data) as keeper:
        return await keeper.list() == []


async def kinds(sandbox: Sandbox) -> list[str]:
    return [event.head.type.removeprefix("sandbox.") async for event in sandbox.events(types=["sandbox"])]
