"""The two ends of a command's standard streams."""

import os
from typing import NamedTuple

from infra.keeper.frame import Kind
from infra.keeper.streams import widen_pipe


class Stdio(NamedTuple):
    inside: tuple[int, ...]
    """For the command: stdin, stdout, stderr."""
    stdin: int | None
    output: dict[Kind, int]

    def close_inside(self) -> None:
        for fd in self.inside:
            os.close(fd)

    def close_outside(self) -> None:
        for fd in (*self.output.values(), *([] if self.stdin is None else [self.stdin])):
            os.close(fd)


def open_pipes(*, stdin: bool) -> Stdio:
    """Raises OSError when descriptors run out; then none is left open."""
    opened: list[int] = []
    try:
        if stdin:
            opened += os.pipe2(os.O_CLOEXEC)
        else:
            opened += [os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC), -1]
        opened += os.pipe2(os.O_CLOEXEC)
        opened += os.pipe2(os.O_CLOEXEC)
    except OSError:
        for fd in opened:
            if fd >= 0:
                os.close(fd)
        raise
    stdin_read, stdin_write, out_read, out_write, err_read, err_write = opened
    for fd in (out_read, err_read):
        widen_pipe(fd)
    # A sandbox may have another user than the keeper, and must be able to open /dev/stdout and /dev/stdin again.
    for fd in (*([stdin_read] if stdin else []), out_write, err_write):
        os.fchmod(fd, 0o666)
    if stdin:
        os.set_blocking(stdin_write, False)
    return Stdio(
        (stdin_read, out_write, err_write),
        stdin_write if stdin else None,
        {Kind.STDOUT: out_read, Kind.STDERR: err_read},
    )


NO_PIPES = Stdio((), None, {})
