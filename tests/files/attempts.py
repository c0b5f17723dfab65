"""The corpus of attempts to leave a workspace."""

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.files.verbs import OF_THE_LINK_ITSELF
from tests.files.workspaces import Ground

Setup = Callable[[Ground], None]


class Attempt(NamedTuple):
    name: str
    path: str
    setup: Setup = lambda ground: None
    raw: bytes | None = None
    harmless: frozenset[str] = frozenset()
    """Verbs that may do what they do with this, since it touches nothing outside."""
    as_root: bool = False
    code: str = "SANDBOX_PATH_DENIED"
    """Of every refusal, but for"""
    invalid: frozenset[str] = frozenset()
    """verbs to which this makes no sense at all: INVALID."""

    def refusal(self, verb: str) -> str:
        return "INVALID" if verb in self.invalid else self.code


LONG = "x" * 256
DEEP = "/".join(["d"] * 2500)

SPELLINGS: tuple[tuple[str, str], ...] = (
    ("up", ".."),
    ("up to a file", "../outside/secret"),
    ("up to a directory", "../outside"),
    ("up twice", "../../etc/passwd"),
    ("far up", "../" * 40 + "etc/passwd"),
    ("down and up", "directory/../../outside/secret"),
    ("down and up, staying", "directory/../plain"),
    ("up behind a dot", "./../outside/secret"),
    ("up between slashes", ".//..//outside//secret"),
    ("up at the end", "directory/.."),
    ("up, with a slash", "../"),
    ("up from home", "~/../outside/secret"),
    ("home twice up", "~/../../etc/passwd"),
    ("up behind the workspace", "/workspace/../outside/secret"),
    ("up and back", "../workspace/plain"),
    ("up behind an absolute dot", "/workspace/./../etc/passwd"),
    ("the root", "/"),
    ("the root, twice", "//"),
    ("an absolute path", "/etc/passwd"),
    ("an absolute path, two slashes", "//etc/passwd"),
    ("an absolute path, dotted", "/./etc/passwd"),
    ("a neighbour of the same beginning", "/workspace2/plain"),
    ("a neighbour in capitals", "/WORKSPACE/plain"),
    ("a lookalike workspace", "/wоrkspace/plain"),
    ("a decomposed workspace", "/workspace\u0301/plain"),
    ("our own process", "/proc/self/environ"),
    ("our own root", "/proc/self/root/etc/passwd"),
    ("our own descriptors", "/proc/self/fd/0"),
    ("the first process", "/proc/1/root/etc/shadow"),
    ("a device", "/dev/null"),
    ("a terminal", "/dev/tty"),
    ("memory", "/dev/mem"),
    ("standard input", "/dev/stdin"),
    ("shared memory", "/dev/shm/x"),
    ("the kernel's settings", "/sys/kernel/uevent_helper"),
)

MALFORMED: tuple[tuple[str, str], ...] = (
    ("nothing", ""),
    ("a name that is too long", LONG),
    ("a directory whose name is too long", f"{LONG}/plain"),
    ("a path that is too long", DEEP),
    ("NUL", "plain\x00"),
    ("NUL in the middle", "plain\x00/../../etc/passwd"),
    ("only NUL", "\x00"),
)


def _link(target: str, name: str = "link") -> Setup:
    def make(ground: Ground) -> None:
        where = ground.workspace / name
        where.parent.mkdir(parents=True, exist_ok=True)
        where.symlink_to(target)

    return make


def _to_host(relative: str) -> Setup:
    return lambda ground: (ground.workspace / "link").symlink_to(ground.outside / relative)


def _chain(length: int, end: str) -> Setup:
    def make(ground: Ground) -> None:
        for number in range(length):
            (ground.workspace / f"l{number}").symlink_to(f"l{number + 1}" if number < length - 1 else end)

    return make


def _circle(ground: Ground) -> None:
    (ground.workspace / "link").symlink_to("other")
    (ground.workspace / "other").symlink_to("link")


def _into_circle(ground: Ground) -> None:
    _circle(ground)
    (ground.workspace / "third").symlink_to("link")


LAST: tuple[tuple[str, Setup, str], ...] = (
    ("a link to an absolute path", _link("/etc/passwd"), "link"),
    ("a link to the host's path", _to_host("secret"), "link"),
    ("a link to a directory of the host", _to_host("directory"), "link"),
    ("a link upwards", _link("../outside/secret"), "link"),
    ("a link to the parent", _link(".."), "link"),
    ("a link to the root", _link("/"), "link"),
    ("a link up through the workspace's own path", _link("/workspace/../outside/secret"), "link"),
    ("a link to a neighbour", _link("/workspace2/plain"), "link"),
    ("a link with two slashes", _link("//etc//passwd"), "link"),
    ("a link down and up", _link("directory/../../outside/secret"), "link"),
    ("a link out and back", _link("../workspace/plain"), "link"),
    ("a link in a directory", _link("../../outside/secret", "directory/link"), "directory/link"),
    ("a link to our root", _link("/proc/self/root/etc/passwd"), "link"),
    ("a link to our working directory", _link("/proc/self/cwd"), "link"),
    ("a link to our descriptors", _link("/proc/self/fd/0"), "link"),
    ("a link to a thread's root", _link("/proc/thread-self/root/etc/passwd"), "link"),
    ("a link to standard input", _link("/dev/stdin"), "link"),
    ("a link to a device", _link("/dev/zero"), "link"),
    ("a chain of links", _chain(3, "../outside/secret"), "l0"),
    ("a chain of too many links", _chain(60, "plain"), "l0"),
    ("a link to itself", _link("link"), "link"),
    ("a circle of links", _circle, "link"),
    ("a link into a circle", _into_circle, "third"),
)

MIDDLE: tuple[tuple[str, Setup, str], ...] = (
    ("through a link upwards", _link(".."), "link/outside/secret"),
    ("through a link to a directory outside", _link("../outside"), "link/secret"),
    ("through a link to the host's path", _to_host("directory"), "link/secret"),
    ("through a link to the root", _link("/"), "link/etc/passwd"),
    ("through a link to our root", _link("/proc/self/root"), "link/etc/passwd"),
    ("through a link to our working directory", _link("/proc/self/cwd"), "link/x"),
    ("through a link to a process", _link("/proc/self"), "link/environ"),
    ("through a link to devices", _link("/dev"), "link/null"),
    ("through a link above the workspace", _link("/workspace/.."), "link/outside/secret"),
    ("through a link out and back", _link("../workspace"), "link/plain"),
    ("through two links", _chain(2, "../outside"), "l0/secret"),
    ("through a circle", _circle, "link/plain"),
)


def _fifo(ground: Ground) -> None:
    os.mkfifo(ground.workspace / "special")


def _socket(ground: Ground) -> None:
    here = Path.cwd()
    with socket.socket(socket.AF_UNIX) as listening:
        os.chdir(ground.workspace)
        try:
            listening.bind("special")
        finally:
            os.chdir(here)


def _device(kind: int, major: int, minor: int) -> Setup:
    return lambda ground: os.mknod(ground.workspace / "special", kind | 0o666, os.makedev(major, minor))


def _hard_link(ground: Ground) -> None:
    os.link(ground.outside / "secret", ground.workspace / "special")


def _link_to_fifo(ground: Ground) -> None:
    _fifo(ground)
    (ground.workspace / "link").symlink_to("special")


_LOOKED_AT = frozenset({"stat", "remove", "move_from"})
_REPLACED = _LOOKED_AT | {"write", "upload", "upload_into"}
_BENEATH = frozenset({"upload_into"})
"""The path of a piece is names beneath the top, and nothing else."""
_MAKING = frozenset({"append", "mkdir", "move_to", "upload", "upload_into", "write"})
_NO_DIRECTORY = frozenset({"glob", "list", "mkdir", "move_to"})
_CHARACTER, _BLOCK = 0o020000, 0o060000

SPECIAL: tuple[Attempt, ...] = (
    Attempt("a pipe that nobody writes", "special", _fifo, harmless=_LOOKED_AT),
    Attempt("a link to a pipe", "link", _link_to_fifo, harmless=_LOOKED_AT),
    Attempt("a socket", "special", _socket, harmless=_LOOKED_AT),
    Attempt("a character device", "special", _device(_CHARACTER, 1, 5), harmless=_LOOKED_AT, as_root=True),
    Attempt("a block device", "special", _device(_BLOCK, 7, 0), harmless=_LOOKED_AT, as_root=True),
    Attempt("a hard link to a file of somebody else", "special", _hard_link, harmless=_REPLACED, as_root=True),
)

RAW: tuple[tuple[str, bytes], ...] = (
    ("up, as bytes", b"../outside/secret"),
    ("absolute, as bytes", b"/etc/passwd"),
    ("up behind a name that is not UTF-8", b"\xff/../../outside/secret"),
)
MALFORMED_RAW: tuple[tuple[str, bytes], ...] = (
    ("NUL, as bytes", b"plain\x00\xff"),
    ("too long, as bytes", b"\xff" * 300),
)

CORPUS: tuple[Attempt, ...] = (
    *(Attempt(name, path, invalid=_BENEATH) for name, path in SPELLINGS),
    *(Attempt(name, path, code="INVALID") for name, path in MALFORMED),
    *(
        Attempt(name, path, setup, harmless=OF_THE_LINK_ITSELF, invalid=frozenset({"move_to"}))
        for name, setup, path in LAST
    ),
    *(Attempt(name, path, setup) for name, setup, path in MIDDLE),
    Attempt("through a file", "plain/secret", code="SANDBOX_FILE_NOT_FOUND", invalid=_MAKING),
    Attempt(
        "by the workspace's own path through a link", "/workspace/link/secret", _link("../outside"), invalid=_BENEATH
    ),
    Attempt("from home through a link", "~/link/secret", _link("../outside"), harmless=frozenset({"upload_into"})),
    *(attempt._replace(invalid=_NO_DIRECTORY) for attempt in SPECIAL),
    Attempt("through a pipe", "special/secret", _fifo, code="SANDBOX_FILE_NOT_FOUND", invalid=_MAKING),
    *(Attempt(name, ".", raw=raw, invalid=_BENEATH) for name, raw in RAW),
    *(Attempt(name, ".", raw=raw, code="INVALID") for name, raw in MALFORMED_RAW),
)

ORDINARY: tuple[str, ...] = (
    "..\\outside\\secret",
    "%2e%2e/outside/secret",
    "%2e%2e%2foutside%2fsecret",
    "..%c0%afoutside/secret",
    "...",
    "..../outside/secret",
    ".. /outside/secret",
    "..;/outside/secret",
    "\uff0e\uff0e/outside/secret",
    "\u2025/outside/secret",
    "\u2215etc\u2215passwd",
    "\uff0fetc\uff0fpasswd",
    "\u202e..",
    "~root/.bashrc",
    "~~",
    "$HOME/.bashrc",
    "`id`",
    "$(id)",
    "; rm -rf .",
    "-rf",
    "--help",
    "*",
    "a\nb",
    "file:/etc/passwd",
    "C:\\Windows",
    "\u00e9",
    "e\u0301",
)
"""These look like something else and are names like any other."""
