"""A system call filter: what no command needs and what has been a way out of a sandbox before.

Namespaces, no capabilities and no-new-privileges already refuse most of this. The filter takes away the code behind it.
"""

import errno
import platform
import struct

_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

_DENIED: dict[str, tuple[int, ...]] = {
    # keyctl, add_key, request_key, bpf, perf_event_open, userfaultfd, kexec_load, kexec_file_load, init_module,
    # finit_module, delete_module, open_by_handle_at, swapon, swapoff, reboot, acct, quotactl, mount, umount2,
    # pivot_root, setns, open_tree, move_mount, fsopen, fsconfig, fsmount, fspick, mount_setattr
    "x86_64": (250, 248, 249, 321, 298, 323, 246, 320, 175, 313, 176, 304, 167, 168, 169, 163, 179, 165, 166,
               155, 308, 428, 429, 430, 431, 432, 433, 442),
    "aarch64": (219, 217, 218, 280, 241, 282, 104, 294, 105, 273, 106, 265, 224, 225, 142, 89, 60, 40, 39,
                41, 268, 428, 429, 430, 431, 432, 433, 442),
}  # fmt: skip
_UNKNOWN = (425, 426, 427)
"""io_uring, the same everywhere: libraries fall back when the kernel seems not to have it."""

_SOCKET = {"x86_64": 41, "aarch64": 198}
_FAMILIES = (1, 2, 10, 16)
"""Of sockets: unix, IPv4, IPv6, netlink. Some others do not stay within a network namespace: vsock speaks with the
host of a virtual machine from anywhere in it."""

_LOAD, _JUMP_EQUAL, _JUMP_NOT_BELOW, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_X32_BIT = 0x40000000
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
"""Where the kernel puts them; of an argument this is the lower half, and a family is an int."""


def seccomp_program(machine: str | None = None) -> bytes | None:
    """The filter for bubblewrap's `--seccomp`; None on a machine that it does not know."""
    machine = machine or platform.machine()
    if machine not in _ARCHITECTURES:
        return None
    checks = [
        _instruction(_LOAD, _ARCHITECTURE),
        # Another architecture's calls have other numbers and would pass unseen.
        _instruction(_JUMP_EQUAL, _ARCHITECTURES[machine], when_true=1),
        _instruction(_RETURN, _ERRNO | errno.ENOSYS),
        _instruction(_LOAD, _NUMBER),
        _instruction(_JUMP_NOT_BELOW, _X32_BIT, when_false=1),
        _instruction(_RETURN, _ERRNO | errno.ENOSYS),
    ]
    for number in _DENIED[machine]:
        checks += _refuse(number, errno.EPERM)
    for number in _UNKNOWN:
        checks += _refuse(number, errno.ENOSYS)
    checks += _refuse_families(_SOCKET[machine])
    return b"".join([*checks, _instruction(_RETURN, _ALLOW)])


def _refuse_families(socket: int) -> list[bytes]:
    """Comes last: it looks at an argument, and the number is forgotten then."""
    known = [_instruction(_JUMP_EQUAL, family, when_true=len(_FAMILIES) - at) for at, family in enumerate(_FAMILIES)]
    return [
        _instruction(_JUMP_EQUAL, socket, when_false=len(known) + 2),
        _instruction(_LOAD, _FIRST_ARGUMENT),
        *known,
        _instruction(_RETURN, _ERRNO | errno.EAFNOSUPPORT),
    ]


def _refuse(number: int, error: int) -> list[bytes]:
    return [_instruction(_JUMP_EQUAL, number, when_false=1), _instruction(_RETURN, _ERRNO | error)]


def _instruction(code: int, value: int, when_true: int = 0, when_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, when_true, when_false, value)
