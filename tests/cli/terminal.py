"""Somebody at a terminal."""

import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.cli.command_line import CommandLine
from tests.cli.shell import PATIENCE_S, Shell


class Person:
    """Reads, types, drags the window."""

    def __init__(self, master: int, process: CommandLine) -> None:
        self._master = master
        self.process = process
        self.seen = b""
        self.shown = b""
        """All of it, also what was taken by `sees`."""
        self.typed = b""

    def sees(self, wanted: bytes) -> None:
        """Reads on until `wanted` is there, and takes everything up to it."""
        deadline = time.monotonic() + PATIENCE_S
        while wanted not in self.seen:
            left = deadline - time.monotonic()
            assert left > 0, self.seen[-1000:]
            self._read(left)
        self.seen = self.seen.partition(wanted)[2]

    def _read(self, patience_s: float) -> bool:
        if not select.select([self._master], [], [], patience_s)[0]:
            return False
        data = os.read(self._master, 65_536)
        self.seen += data
        self.shown += data
        return True

    def types(self, text: bytes) -> None:
        self.typed += text
        os.write(self._master, text)

    def leaves(self) -> int:
        """Waits for the end, and reads what came until then. Returns the exit code."""
        deadline = time.monotonic() + PATIENCE_S
        while self.process.poll() is None:
            assert time.monotonic() < deadline, self.seen[-1000:]
            self._read(0.05)
        while self._read(0):
            pass
        return self.process.wait()

    def resizes(self, rows: int, cols: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("4H", rows, cols, 0, 0))
        self.process.send_signal(signal.SIGWINCH)


@contextmanager
def at_a_terminal(cloche: Shell, *arguments: str) -> Iterator[Person]:
    master, slave = pty.openpty()
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("4H", 33, 99, 0, 0))
    before = termios.tcgetattr(slave)
    with CommandLine(arguments, cloche.env, stdin=slave, stdout=slave, stderr=slave) as process:
        try:
            yield Person(master, process)
            assert termios.tcgetattr(slave) == before, "the terminal was left in raw mode"
        finally:
            process.kill()
            os.close(slave)
            os.close(master)
