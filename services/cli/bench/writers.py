"""Several writers at once, each a process: how many events are stored in a second, and how long one of them takes."""

import asyncio
import sys
import time
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from contracts.errors import Unavailable
from services.cli.bench.writing import Job, Wrote


class Rate(NamedTuple):
    events_per_s: float
    milliseconds: list[float]


async def together(jobs: Sequence[Job]) -> Rate:
    """All begin when the last of them is ready. Raises `Unavailable` where one of them fails."""
    writers = [await _started(job) for job in jobs]
    try:
        await _all_say(writers, b"ready\n")
        began = time.perf_counter()
        await _tell(writers)
        await _all_say(writers, b"written\n")
        took = time.perf_counter() - began
        await _tell(writers)
        wrote = [msgspec.json.decode(await _line(writer), type=Wrote) for writer in writers]
    finally:
        for writer in writers:
            if writer.returncode is None:
                writer.kill()
            await writer.wait()
    singles = [each for one in wrote for each in one.milliseconds]
    return Rate(sum(job.events for job in jobs) / took, singles)


async def _started(job: Job) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    writer = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "services.cli.bench.writer_process", stdin=pipe, stdout=pipe, limit=1 << 24
    )
    assert writer.stdin is not None
    writer.stdin.write(msgspec.json.encode(job) + b"\n")
    return writer


async def _tell(writers: Sequence[asyncio.subprocess.Process]) -> None:
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write(b"\n")


async def _all_say(writers: Sequence[asyncio.subprocess.Process], word: bytes) -> None:
    for writer in writers:
        if (said := await _line(writer)) != word:
            raise Unavailable(f"a writer said {said[:200]!r}")


async def _line(writer: asyncio.subprocess.Process) -> bytes:
    assert writer.stdout is not None
    line = await writer.stdout.readline()
    if not line:
        raise Unavailable(f"a writer has ended with {await writer.wait()}")
    return line
