"""watchfiles in a process of its own, printing what changes: what following files costs without a log."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

VARIABLE = "CLOCHE_BENCH_WATCHFILES"
PROGRAM = """
import sys
from watchfiles import watch
print("ready", flush=True)
for changes in watch(sys.argv[1], watch_filter=None, debounce=1, step=1, rust_timeout=100, yield_on_timeout=False):
    sys.stdout.write("".join(f"{path}\\n" for _, path in changes))
    sys.stdout.flush()
"""


def interpreter() -> str:
    """A Python that may have watchfiles: it is no dependency."""
    return os.environ.get(VARIABLE) or sys.executable


async def has_watchfiles() -> bool:
    asking = await asyncio.create_subprocess_exec(
        interpreter(), "-c", "import watchfiles", stderr=asyncio.subprocess.DEVNULL
    )
    return await asking.wait() == 0


@asynccontextmanager
async def printing(directory: Path) -> AsyncIterator[asyncio.StreamReader]:
    """Yields its output once it watches."""
    process = await asyncio.create_subprocess_exec(
        interpreter(), "-c", PROGRAM, str(directory), stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        await process.stdout.readline()
        yield process.stdout
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
