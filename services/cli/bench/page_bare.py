"""What one would write without Cloche to show a text: a page with it, from a server of files."""

import asyncio
import html
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from contracts.errors import Unavailable

HERE = "127.0.0.1"


@asynccontextmanager
async def static_page(place: Path, text: str) -> AsyncIterator[str]:
    """The address of the page. By what everybody has: `python -m http.server`."""
    await asyncio.to_thread(_write, place, text)
    server = [sys.executable, "-u", "-m", "http.server", "--bind", HERE, "--directory", str(place), "0"]
    process = await asyncio.create_subprocess_exec(
        *server, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    assert process.stdout is not None
    try:
        said = (await process.stdout.readline()).decode(errors="replace")
        found = re.search(r"port (\d+)", said)
        if found is None:
            raise Unavailable(f"the static server did not start: {said}")
        yield f"http://{HERE}:{found[1]}/"
    finally:
        if process.returncode is None:
            process.terminate()
        await process.communicate()


def _write(place: Path, text: str) -> None:
    place.mkdir(exist_ok=True)
    head = '<!doctype html><html lang="en"><meta charset="utf-8"><title>Text</title>'
    (place / "index.html").write_text(f"{head}<pre>{html.escape(text)}</pre></html>\n")
