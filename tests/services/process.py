"""A service as a process of its own that can be killed, without paying for its imports each time.

They are paid once for each worker of the test run, by a server that forks. What runs in the child is what
`python -m services.<name>` runs.
"""

import asyncio
import ctypes
import importlib
import multiprocessing
import multiprocessing.context
import os
import signal
import sys
from collections.abc import Mapping
from multiprocessing.reduction import DupFd
from pathlib import Path
from typing import Any

from infra.service import main

SERVICES = ("spawner", "executor", "file_watcher", "health_monitor", "replay", "guardian", "egress")
LINE_BYTES = 2**24
PR_SET_PDEATHSIG = 1

_forking = multiprocessing.get_context("forkserver")
_forking.set_forkserver_preload([f"services.{name}.app" for name in SERVICES])


class Process:
    def __init__(self, running: multiprocessing.context.ForkServerProcess, errors: asyncio.StreamReader) -> None:
        self._running = running
        self.errors = errors
        """What it says on stderr."""

    @classmethod
    async def start(cls, name: str, env: Mapping[str, str], cwd: Path) -> "Process":
        reading, writing = os.pipe()
        try:
            running = _forking.Process(target=_serve, args=(name, dict(env), str(cwd), DupFd(writing)))
            await asyncio.to_thread(running.start)
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


def _serve(name: str, env: dict[str, str], cwd: str, errors: Any) -> None:
    # A test run that is killed takes its services along.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    os.dup2(errors.detach(), sys.stderr.fileno())
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    main(importlib.import_module(f"services.{name}.app").make_app)
