"""Processes of their own that can be killed, without paying for their imports each time.

They are paid once for each worker of the test run, by a server that forks.
"""

import ctypes
import importlib
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Mapping
from multiprocessing import forkserver
from multiprocessing.context import ForkServerProcess
from multiprocessing.reduction import DupFd
from typing import Any, NamedTuple

WARM = "tests.warm"
PR_SET_PDEATHSIG = 1

_forking = multiprocessing.get_context("forkserver")
_forking.set_forkserver_preload([WARM])


def be_ready() -> None:
    """The server is what the process is that starts it: of this network, say, and not of one that a test enters."""
    forkserver.ensure_running()


class Descriptor:
    """One that the child is given as it starts."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __reduce__(self) -> tuple[Callable[[Any], int], tuple[Any]]:
        return _inherited, (DupFd(self._number),)


def _inherited(given: Any) -> int:
    return int(given.detach())


class Birth(NamedTuple):
    """What a process is born with."""

    env: Mapping[str, str]
    cwd: str
    streams: tuple[int, int, int]
    """stdin, stdout, stderr."""


def fork(born: Birth, target: Callable[..., object], *arguments: object) -> ForkServerProcess:
    """Runs `target`, a function of a module, in a new process."""
    streams = tuple(Descriptor(number) for number in born.streams)
    process = _forking.Process(target=_begin, args=(dict(born.env), born.cwd, streams, target, arguments))
    process.start()
    return process


def _begin(
    env: dict[str, str], cwd: str, streams: tuple[int, int, int], target: Callable[..., object], arguments: Any
) -> None:
    # A test run that is killed takes its processes along.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    # As at a terminal, also where a script has put the test run in the background.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, given in enumerate(streams):
        os.dup2(given, number)
        os.close(given)
    _open_streams()
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    # The server says nothing when it lacks this.
    importlib.import_module(WARM)
    target(*arguments)


def _open_streams() -> None:
    """As a new interpreter opens its own."""
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
