"""One `python -m services.cli`, held as `subprocess.Popen` would hold it, without the wait for its imports."""

import contextlib
import os
import runpy
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import BinaryIO, Self

from tests.forking import Birth, fork

ENTRANCE = "services.cli"


class CommandLine:
    """Leaving it closes its pipes and waits for its end.

    Its streams are descriptors of ours, pipes (`subprocess.PIPE`) or nothing (`subprocess.DEVNULL`).
    """

    def __init__(
        self,
        arguments: Sequence[str],
        env: Mapping[str, str],
        *,
        stdin: int = subprocess.DEVNULL,
        stdout: int = subprocess.PIPE,
        stderr: int = subprocess.PIPE,
        begin: Callable[[], object] | None = None,
    ) -> None:
        """`begin` is called in its process, before anything else."""
        self._arguments = tuple(arguments)
        self.stdin: BinaryIO | None = None
        self.stdout: BinaryIO | None = None
        self.stderr: BinaryIO | None = None
        with contextlib.ExitStack() as closing:
            if stdin == subprocess.PIPE:
                stdin, writing = os.pipe()
                closing.callback(os.close, stdin)
                self.stdin = os.fdopen(writing, "wb")
            elif stdin == subprocess.DEVNULL:
                stdin = os.open(os.devnull, os.O_RDONLY)
                closing.callback(os.close, stdin)
            if stdout == subprocess.PIPE:
                reading, stdout = os.pipe()
                closing.callback(os.close, stdout)
                self.stdout = os.fdopen(reading, "rb")
            if stderr == subprocess.PIPE:
                reading, stderr = os.pipe()
                closing.callback(os.close, stderr)
                self.stderr = os.fdopen(reading, "rb")
            self._process = fork(Birth(env, os.getcwd(), (stdin, stdout, stderr)), _run, self._arguments, begin)

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    @property
    def returncode(self) -> int | None:
        return self.poll()

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, or minus the number of the signal that ended it. Raises `subprocess.TimeoutExpired`."""
        self._process.join(timeout)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired(self._arguments, timeout or 0)
        return code

    def communicate(self, given: bytes = b"", timeout: float | None = None) -> tuple[bytes, bytes]:
        """All that it says until it ends. What takes longer than `timeout` is killed, and `TimeoutExpired` raised."""
        with ThreadPoolExecutor(3) as pool:
            feeding = pool.submit(_feed, self.stdin, given)
            out, err = pool.submit(_read, self.stdout), pool.submit(_read, self.stderr)
            try:
                self.wait(timeout)
            except subprocess.TimeoutExpired:
                self.kill()
                raise
            feeding.result()
            return out.result(), err.result()

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self._process.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for stream in (self.stdout, self.stderr, self.stdin):
            if stream is not None:
                stream.close()
        self.wait()


def _feed(stream: BinaryIO | None, data: bytes) -> None:
    if stream is not None:
        with contextlib.suppress(BrokenPipeError), stream:
            stream.write(data)


def _read(stream: BinaryIO | None) -> bytes:
    return b"" if stream is None else stream.read()


def _run(arguments: Sequence[str], begin: Callable[[], object] | None) -> None:
    if begin is not None:
        begin()
    sys.argv = [ENTRANCE, *arguments]
    runpy.run_module(ENTRANCE, run_name="__main__", alter_sys=True)
