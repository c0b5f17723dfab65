"""Makes sure that a data directory has a keeper."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import infra
from contracts.errors import Conflict, Unavailable
from infra.keeper.client import KeeperClient
from infra.keeper.layout import Layout
from infra.settings import Keeping

ATTEMPTS = 3


async def reach_keeper(data_dir: Path, keeping: Keeping) -> KeeperClient:
    """A client of the keeper, started first where that is ours to do. Raises `Unavailable`."""
    return await (KeeperClient.connect(data_dir) if keeping is Keeping.ADOPT else ensure_keeper(data_dir))


async def ensure_keeper(data_dir: Path) -> KeeperClient:
    """A client of the keeper; starts one that outlives us where none answers.

    Raises `Unavailable` with the keeper's own words when none can be started.
    """
    said = ""
    for _ in range(ATTEMPTS):
        try:
            return await KeeperClient.connect(data_dir)
        except Unavailable:
            said = await _start(data_dir)
    try:
        return await KeeperClient.connect(data_dir)
    except Unavailable as error:
        raise Unavailable(f"the keeper does not start: {said or error.message}") from error


async def _start(data_dir: Path) -> str:
    """Returns when the keeper listens or has given up, with what it said."""
    Layout.of(data_dir).prepare()
    # In a thread: uvloop's own subprocesses keep a pipe open in the detached child, and would wait for it for ever.
    return await asyncio.to_thread(_spawn, data_dir)


def _spawn(data_dir: Path) -> str:
    home = str(Path(infra.__path__[0]).parent)
    path = os.pathsep.join([home, *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-m", "infra.keeper", "--data", str(data_dir), "--detach"],
        env={**os.environ, "PYTHONPATH": path},
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        check=False,
    )
    return done.stderr.decode("utf-8", "replace").strip()


async def end_keeper(data_dir: Path, *, force: bool = False) -> bool:
    """Ends the keeper of a data directory; forced, its commands end as lost. False while commands run.

    Does nothing where none runs.
    """
    try:
        async with await KeeperClient.connect(data_dir) as client:
            await client.shutdown(force=force)
    except Conflict:
        return False
    except Unavailable:
        return True
    return True
