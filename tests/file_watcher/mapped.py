"""Files that are written through a mapping."""

import asyncio
import mmap
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from infra.watching import contents
from tests.file_watcher.rig import Following


@asynccontextmanager
async def stored_without_a_trace(followed: Following) -> AsyncIterator[mmap.mmap]:
    """In a file of two names, after all that is told of it."""
    file = followed.root / "mapped"
    file.write_bytes(b"." * 100)
    os.link(file, followed.root / "other name")
    with file.open("r+b") as opened:
        mapping = mmap.mmap(opened.fileno(), 0)
    with mapping:
        for _ in range(10):
            mapping[0] += 1
            await settle(file)
            await followed.flush(manifest=True)
            if _leaves_no_trace(file, mapping):
                break
        else:
            pytest.fail("every store moved the times of the file")
        yield mapping


def _leaves_no_trace(file: Path, mapping: mmap.mmap) -> bool:
    """The page is dirty already, so this one moves no time of the file, unless the kernel has just written it out."""
    before = file.stat().st_ctime_ns
    mapping[1] += 1
    return file.stat().st_ctime_ns == before


async def settle(file: Path) -> None:
    """Until its times are old enough that they are believed."""
    while time.time_ns() - file.stat().st_ctime_ns <= 2 * contents.FRESH_NS:
        await asyncio.sleep(0.01)
