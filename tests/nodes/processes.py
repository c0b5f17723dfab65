"""`cloche node` as a process of its own, on servers that a test has."""

import json
import os
import signal
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from infra.embedded import secrets
from infra.keeper.launcher import end_keeper
from tests.bus.servers import Server
from tests.cli.command_line import CommandLine
from tests.services.node import DEFAULTS, end_sandboxes

PATIENCE_S = 120.0


def values_of(server: Server, data: Path, node: str) -> dict[str, str]:
    return {
        "CLOCHE_DATA": str(data),
        "CLOCHE_NODE": node,
        "CLOCHE_URL": server.url,
        "CLOCHE_CREDS": str(secrets.directory(server.data)),
    }


@contextmanager
def node_of(values: dict[str, str]) -> Iterator[CommandLine]:
    with CommandLine(["node"], {**os.environ, **DEFAULTS, **values}) as line:
        try:
            yield line
        finally:
            line.send_signal(signal.SIGKILL)


def until_up(line: CommandLine) -> list[str]:
    said: list[str] = []
    assert line.stderr is not None
    killer = threading.Timer(PATIENCE_S, line.kill)
    killer.start()
    for raw in line.stderr:
        said.append(raw.decode())
        if "Ctrl-C" in said[-1]:
            killer.cancel()
            return said
    raise AssertionError(said)


def said_by(values: dict[str, str], *arguments: str) -> list[dict[str, Any]]:
    return [json.loads(each) for each in out_of(values, *arguments).splitlines()]


def out_of(values: dict[str, str], *arguments: str) -> str:
    with CommandLine(arguments, {**os.environ, **DEFAULTS, **values}) as line:
        out, err = line.communicate(b"", PATIENCE_S)
        assert line.returncode == 0, err
        return out.decode()


@asynccontextmanager
async def cleaned(data: Path) -> AsyncIterator[None]:
    try:
        yield
    finally:
        await end_sandboxes(data)
        await end_keeper(data, force=True)
