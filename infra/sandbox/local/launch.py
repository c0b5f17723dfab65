"""A program of its own, stdlib only: becomes bubblewrap, with the right limits, groups and user.

It reads its plan as JSON from standard input, forks away from the service that started it and executes bubblewrap.
What goes wrong is one line on standard error, which is the sandbox's log.
"""

from __future__ import annotations

import binascii
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
"""Where, as root, the pieces that bubblewrap needs are bound together. Every system has this directory."""

_CLONE_NEWNS = 0x00020000
_MS_BIND, _MS_REC, _MS_SLAVE = 0x1000, 0x4000, 0x80000
_MS_NOSUID, _MS_NODEV = 0x2, 0x4
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 47, 4


def main() -> NoReturn:
    plan = json.load(sys.stdin)
    if os.fork():
        os._exit(0)
    try:
        _become(plan)
    except OSError as error:
        os.write(2, f"launch: {error}\n".encode())
    os._exit(1)


def _become(plan: dict[str, Any]) -> None:
    os.setsid()
    os.dup2(os.open("/dev/null", os.O_RDWR), 0)
    os.umask(0o022)
    for entrance in plan["cgroups"]:
        _write(entrance, b"0")
    _write("/proc/self/oom_score_adj", str(plan["oom_score_adj"]).encode())
    if plan["stage"]:
        _stage(plan["stage"])
    for name, value in plan["rlimits"].items():
        resource.setrlimit(getattr(resource, name), (value, value))
    if plan["uid"] is not None:
        _drop_to(plan["uid"])
    # A service that was given single capabilities would hand them on, and bubblewrap refuses to run with any.
    ctypes.CDLL(None).prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    program = plan["program"]
    arguments = [part if isinstance(part, str) else _data(part["base64"]) for part in plan["arguments"]]
    os.execve(program, [program, *arguments], {})  # noqa: S606


def _write(path: str, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    os.write(descriptor, data)
    os.close(descriptor)


def _data(encoded: str) -> str:
    """The number of a descriptor from which the data can be read once."""
    descriptor = os.memfd_create("data", 0)
    os.write(descriptor, binascii.a2b_base64(encoded))
    os.lseek(descriptor, 0, os.SEEK_SET)
    return str(descriptor)


def _drop_to(uid: int) -> None:
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def _stage(pieces: dict[str, str]) -> None:
    """Bind each piece beneath STAGE in a mount namespace of our own.

    The sandbox's user cannot walk through, say, a home directory of mode 0700 to reach them where they are.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    _check(libc.unshare(_CLONE_NEWNS), "cannot make a mount namespace")
    _check(libc.mount(None, b"/", None, _MS_REC | _MS_SLAVE, None), "cannot detach mounts")
    # Opened after unshare, because only mounts of one's own namespace can be bound, and before STAGE is covered,
    # because a piece may lie beneath it.
    opened = {name: os.open(path, os.O_PATH | os.O_CLOEXEC) for name, path in pieces.items()}
    flags = _MS_NOSUID | _MS_NODEV
    _check(libc.mount(b"tmpfs", STAGE.encode(), b"tmpfs", flags, b"mode=0755,size=1m"), f"cannot cover {STAGE}")
    for name, descriptor in opened.items():
        target = f"{STAGE}/{name}"
        _make_mount_point(target, f"/proc/self/fd/{descriptor}")
        source = f"/proc/self/fd/{descriptor}".encode()
        _check(libc.mount(source, target.encode(), None, _MS_BIND | _MS_REC, None), f"cannot bind {name}")


def _make_mount_point(target: str, source: str) -> None:
    if os.path.isdir(source):  # noqa: PTH112
        os.mkdir(target, 0o755)  # noqa: PTH102
    else:
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644))


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


if __name__ == "__main__":
    main()
