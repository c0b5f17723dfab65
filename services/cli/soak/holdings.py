"""What a node holds at one moment: all of it grows without end where something leaks."""

import asyncio
from pathlib import Path

import msgspec
from msgspec import Struct

from contracts.errors import Unavailable
from contracts.spec import Isolation
from infra.client import Sandbox
from infra.docker.containers import Containers
from infra.docker.engine import Engine
from infra.sandbox.providers import load_provider
from infra.target import DockerTarget
from services.cli.bench.rig import Rig

SETTLED_S = 60.0
LOOK_S = 0.2
PROC = Path("/proc")
COUNTED = "ls -d /proc/[0-9]* | wc -l; cat /proc/[0-9]*/stat 2>/dev/null | grep -c ') Z '; true"


class Holdings(Struct, frozen=True, kw_only=True):
    descriptors: int
    """Of the services and the keeper."""
    processes: int
    """In the sandbox, and started by the services or the keeper."""
    zombies: int
    """Among these."""
    execs: int
    """Of which the engine knows; 0 for a local sandbox."""

    def beyond(self, before: "Holdings", slack: int) -> list[str]:
        """Names of what has grown by more than `slack`; zombies by any."""
        most = {"zombies": 0}
        names = self.__struct_fields__
        return [name for name in names if getattr(self, name) - getattr(before, name) > most.get(name, slack)]


async def settled(rig: Rig, sandbox: Sandbox) -> Holdings:
    """Once nothing changes any more: what a command leaves behind may take a moment to go.

    Raises `Unavailable` where it goes on changing for a minute.
    """
    try:
        async with asyncio.timeout(SETTLED_S):
            before = await _look(rig, sandbox)
            while (now := await _look(rig, sandbox)) != before or now.zombies:
                before = now
                await asyncio.sleep(LOOK_S)
    except TimeoutError:
        raise Unavailable(f"it does not come to rest: {msgspec.json.encode(before).decode()}") from None
    return now


async def _look(rig: Rig, sandbox: Sandbox) -> Holdings:
    inside, zombies = map(int, (await sandbox.run(COUNTED)).stdout.split())
    states = [state for pid in rig.processes for state in _children(pid)]
    return Holdings(
        descriptors=sum(len(list((PROC / str(pid) / "fd").iterdir())) for pid in rig.processes),
        processes=inside + len(states),
        zombies=zombies + states.count("Z"),
        execs=await _execs(rig, sandbox),
    )


def _children(parent: int) -> list[str]:
    """The state of each process that this one started."""
    states: list[str] = []
    for stat in PROC.glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[1]) == parent:
            states.append(fields[0])
    return states


async def _execs(rig: Rig, sandbox: Sandbox) -> int:
    if rig.settings.sandbox.isolation != Isolation.DOCKER:
        return 0
    async with load_provider(Isolation.DOCKER, rig.settings.data) as provider:
        target = await provider.target(sandbox.id)
    assert isinstance(target, DockerTarget)
    async with Engine(target.engine) as engine:
        container = await Containers(engine).inspect(target.container)
    return len(container.exec_ids or ()) if container else 0
