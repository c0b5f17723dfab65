"""A node whose log is divided, as `cloche up` runs it."""

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from contracts.partitions import partition_of
from infra.configuration import load
from infra.embedded import store
from infra.embedded.process import Identity, wait_end
from infra.keeper.launcher import end_keeper
from infra.settings import Settings
from tests.cli.shell import Shell, cleaned
from tests.services.node import end_sandboxes

COUNT = 4


@contextmanager
def divided_in(data: Path, **env: str) -> Iterator[Shell]:
    with cleaned(data, CLOCHE_PARTITIONS=str(COUNT), CLOCHE_GATEWAY_PORT="0", **env) as cloche:
        try:
            said = cloche("up", "--detach")
            assert said.code == 0, said.err
            yield cloche
        finally:
            cloche("down")
            asyncio.run(_end(data))


async def _end(data: Path) -> None:
    for number in range(COUNT):
        await end_sandboxes(data / f"p{number}")
        await end_keeper(data / f"p{number}", force=True)


def settings_of(cloche: Shell, **env: str) -> Settings:
    return load({**cloche.env, **env})


def named(number: int, mark: str) -> str:
    """An id of that partition."""
    names = (f"{mark}-{each}" for each in range(1000))
    return next(name for name in names if partition_of(name, COUNT) == number)


async def kill_server(data: Path) -> None:
    """SIGKILL. Its node starts it again."""
    record = store.read_record(data)
    assert record is not None
    os.kill(record.pid, signal.SIGKILL)
    await wait_end(Identity(record.pid, record.started))
