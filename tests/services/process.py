"""A service as a process of its own: what runs in it is what `python -m services.<name>` runs."""

import asyncio
import importlib
import os
from collections.abc import Mapping
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from infra.service import main
from tests.forking import Birth, fork

SERVICES = ("spawner", "executor", "file_watcher", "health_monitor", "replay", "guardian", "egress", "agent", "gateway")
LINE_BYTES = 2**24


class Process:
    def __init__(self, running: ForkServerProcess, errors: asyncio.StreamReader) -> None:
        self._running = running
        self.errors = errors
        """What it says on stderr."""

    @classmethod
    async def start(cls, name: str, env: Mapping[str, str], cwd: Path) -> "Process":
        reading, writing = os.pipe()
        try:
            born = Birth(env, str(cwd), (0, 1, writing))
            running = await asyncio.to_thread(fork, born, _serve, name)
        finally:
            os.close(writing)
        errors = asyncio.StreamReader(LINE_BYTES)
        pipe = os.fdopen(reading, "rb", buffering=0)
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(errors), pipe)
        return cls(running, errors)

    @property
    def pid(self) -> int:
        assert self._running.pid is not None
        return self._running.pid

    def kill(self) -> None:
        self._running.kill()

    def terminate(self) -> None:
        self._running.terminate()

    async def wait(self) -> int:
        """Its exit code."""
        await asyncio.to_thread(self._running.join)
        code = self._running.exitcode
        assert code is not None
        return code


def _serve(name: str) -> None:
    main(importlib.import_module(f"services.{name}.app").make_app)
