"""A program of its own, stdlib only: becomes bubblewrap, with the right limits and as the right user.

It reads its plan as JSON from the descriptor that its argument names; standard input belongs to what runs in the cage.
What goes wrong is one line on standard error and exit code 125.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    # Not at run time: it would be a fifth of the imports.
    from typing import Any, NoReturn

STAGE = "/tmp"  # noqa: S108 - covered by an own mount that nobody else sees
CANNOT_ENTER = 125

_CLONE_NEWNS = 0x00020000
_MS_BIND, _MS_REC, _MS_SLAVE = 0x1000, 0x4000, 0x80000
_MS_NOSUID, _MS_NODEV = 0x2, 0x4
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 47, 4


def main() -> NoReturn:
    with os.fdopen(int(sys.argv[1])) as file:
        plan = json.load(file)
    try:
        _become(plan)
    except OSError as error:
        os.write(2, f"enter: {error}\n".encode())
    os._exit(CANNOT_ENTER)


def _become(plan: dict[str, Any]) -> None:
    os.umask(0o022)
    if plan["stage"]:
        _stage(plan["stage"])
    for name, value in plan["rlimits"].items():
        _limit(getattr(resource, name), value)
    if plan["user"] is not None:
        _drop_to(*plan["user"])
    # A service that was given single capabilities would hand them on, and bubblewrap refuses to run with any.
    ctypes.CDLL(None).prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    os.execve(plan["program"], [plan["program"], *plan["arguments"]], {})  # noqa: S606


def _limit(which: int, value: int) -> None:
    _, hard = resource.getrlimit(which)
    least = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(which, (least, least))


def _drop_to(uid: int, gid: int) -> None:
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)


def _stage(pieces: list[dict[str, Any]]) -> None:
    """Bind each piece beneath STAGE in a mount namespace of our own.

    The cage's user cannot walk through, say, a home directory of mode 0700 to reach them where they are.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    _check(libc.unshare(_CLONE_NEWNS), "cannot make a mount namespace")
    _check(libc.mount(None, b"/", None, _MS_REC | _MS_SLAVE, None), "cannot detach mounts")
    # Opened after unshare, because only mounts of one's own namespace can be bound, and before STAGE is covered,
    # because a piece may lie beneath it.
    opened = [_open(piece) for piece in pieces]
    flags = _MS_NOSUID | _MS_NODEV
    _check(libc.mount(b"tmpfs", STAGE.encode(), b"tmpfs", flags, b"mode=0755,size=1m"), f"cannot cover {STAGE}")
    for piece, descriptor in zip(pieces, opened, strict=True):
        target = f"{STAGE}/{piece['name']}"
        os.mkdir(target, 0o755)  # noqa: PTH102
        source = f"/proc/self/fd/{descriptor}".encode()
        _check(libc.mount(source, target.encode(), None, _MS_BIND | _MS_REC, None), f"cannot bind {piece['name']}")


def _open(piece: dict[str, Any]) -> int:
    """The directory that was looked at when it was decided whose it is, and no other that took its name since."""
    descriptor = os.open(piece["path"], os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    info = os.fstat(descriptor)
    if [info.st_dev, info.st_ino] != piece["identity"]:
        raise FileNotFoundError(f"{piece['path']} was replaced by another directory")
    return descriptor


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


if __name__ == "__main__":
    main()
