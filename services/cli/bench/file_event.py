"""How long after it happened a change on disk is seen by a subscriber."""

import asyncio
import time
from pathlib import Path

from contracts import codec
from contracts.changes import changes_of
from infra.client import Sandbox
from services.cli.bench.figure import Aim, Figure
from services.cli.bench.percentile import percentile
from services.cli.bench.rig import Rig
from services.cli.bench.sizes import Sizes
from services.cli.bench.watchfiles_process import has_watchfiles, printing

AIMS_MS = {50: Aim(below=150), 99: None}
PROGRAM = """
import random, sys, time
for _ in range(int(sys.argv[1])):
    time.sleep(random.uniform(0.250, 0.450))
    open(str(time.time_ns()), "w").close()
"""
"""Each file is named for the moment it was made."""


async def file_event(rig: Rig, sizes: Sizes) -> list[Figure]:
    sandbox = await rig.cloche.create()
    await sandbox.flush()
    ours = await _told(sandbox, sizes.changes)
    await sandbox.remove()
    bare = await _printed(rig.settings.data / "watched", sizes.changes) if await has_watchfiles() else []
    window = rig.settings.files.quiet_ms
    return [
        Figure(
            what=f"file changed → event seen by a subscriber ({window} ms of them the window), p{percent}",
            value=percentile(ours, percent),
            unit="ms",
            bare=percentile(bare, percent) if bare else None,
            beside="watchfiles printing its name",
            aim=aim,
        )
        for percent, aim in AIMS_MS.items()
    ]


async def _told(sandbox: Sandbox, changes: int) -> list[float]:
    execution = await sandbox.start(["python3", "-S", "-c", PROGRAM, str(changes)])
    late: list[float] = []
    async for event in sandbox.events(follow=True, types=["file"]):
        now = time.time_ns()
        fact = codec.decode_fact(event.head)
        changed = changes_of(fact) if fact is not None else ()
        late += [(now - int(change.path.rpartition("/")[2])) / 1e6 for change in changed]
        if len(late) >= changes:
            break
    await execution.wait()
    return late


async def _printed(place: Path, changes: int) -> list[float]:
    await asyncio.to_thread(place.mkdir)
    late: list[float] = []
    seen: set[bytes] = set()
    async with printing(place) as lines:
        making = await asyncio.create_subprocess_exec("python3", "-S", "-c", PROGRAM, str(changes), cwd=place)
        while len(seen) < changes:
            line = (await lines.readline()).rstrip().rpartition(b"/")[2]
            if line.isdigit() and line not in seen:
                seen.add(line)
                late.append((time.time_ns() - int(line)) / 1e6)
        await making.wait()
    return late
