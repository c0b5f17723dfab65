"""Children of an init that have not become their command."""

import os
import signal
from pathlib import Path


def kill_unborn(init: int) -> None:
    """Kills stopped children that still are copies of init: until then it can do nothing else."""
    for child in _children(init):
        try:
            handle = os.pidfd_open(child)
        except OSError:
            continue
        try:
            # Looked at with the handle held: the number cannot have gone to somebody else.
            if _is_stopped_copy(child, init):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
        except ProcessLookupError:
            continue
        finally:
            os.close(handle)


def _children(pid: int) -> list[int]:
    return [int(child) for child in _read(f"/proc/{pid}/task/{pid}/children").split()]


def _is_stopped_copy(child: int, init: int) -> bool:
    command_line = _read(f"/proc/{child}/cmdline")
    state = _read(f"/proc/{child}/stat").rpartition(b")")[2].split()
    return state[:2] == [b"T", str(init).encode()] and command_line == _read(f"/proc/{init}/cmdline")


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""
