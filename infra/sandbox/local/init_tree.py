"""The processes of a local sandbox as init sees them: how a command's begins, and which belong to it later.

Loaded by `init.py` from its own directory; standard library only.
"""
# ruff: noqa: PTH123, PTH208

from __future__ import annotations

import errno
import fcntl
import os
import resource
import signal
import struct
import termios

MARKER = "CLOCHE_EXEC"
IGNORED_BY_INIT = (signal.SIGPIPE, signal.SIGXFSZ)
DEFAULT_PATH = b"/usr/local/bin:/usr/bin:/bin"
EXEC_ERRORS = {errno.ENOENT: "NOT_FOUND", errno.ENOTDIR: "NOT_FOUND", errno.EACCES: "NOT_EXECUTABLE",
               errno.ENOEXEC: "NOT_EXECUTABLE", errno.EPERM: "NOT_EXECUTABLE"}  # fmt: skip


def read_file(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def encoded(text: object) -> bytes:
    """Raises ValueError for anything that exec could not take as a string."""
    if not isinstance(text, str) or "\0" in text:
        raise ValueError("text without NUL expected")
    return text.encode("utf-8", "surrogateescape")


def integer(value: object, least: int, most: int) -> int:
    if not isinstance(value, int) or not least <= value <= most:
        raise ValueError(f"number from {least} to {most} expected")
    return value


def send_signal(pid: int, signum: int) -> bool:
    try:
        os.kill(pid, signum)
    except OSError:
        return False
    return True


class Process:
    __slots__ = ("group", "parent", "pid", "session", "started")

    def __init__(self, pid: int, fields: list[bytes]) -> None:
        self.pid, self.parent, self.group, self.session = pid, int(fields[1]), int(fields[2]), int(fields[3])
        self.started = int(fields[19])

    def carries(self, marker: bytes) -> bool:
        try:
            return marker in read_file(f"/proc/{self.pid}/environ").split(b"\0")
        except OSError:
            return False

    def name(self) -> str:
        try:
            return read_file(f"/proc/{self.pid}/cmdline").split(b"\0")[0][:200].decode("utf-8", "replace")
        except OSError:
            return ""


def living() -> dict[int, Process]:
    """Every process below init that can still run, by pid."""
    table: dict[int, Process] = {}
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            raw = read_file(f"/proc/{name}/stat")
        except OSError:
            continue
        # A process chooses the name between the parentheses, so count from the last one.
        fields = raw[raw.rfind(b")") + 2 :].split()
        # A zombie whose other threads run on is alive: ending the leader thread is a way to hide.
        if len(fields) > 19 and (fields[0] not in b"ZX" or int(fields[17]) > 1):
            table[int(name)] = Process(int(name), fields)
    return table if os.getpid() == 1 else descendants(table, os.getpid())


def descendants(table: dict[int, Process], root: int) -> dict[int, Process]:
    found: dict[int, Process] = {}
    grown = {root}
    while grown:
        new = {pid: each for pid, each in table.items() if each.parent in grown and pid not in found}
        found |= new
        grown = set(new)
    return found


class Command:
    """A started command. Its process id is also its session, until the number goes to another command."""

    def __init__(self, exec_id: str, pid: int) -> None:
        self.exec_id, self.pid = exec_id, pid
        self.marker = f"{MARKER}={exec_id}".encode()
        self.session = pid
        self.ended: dict[str, object] | None = None

    def tree(self, table: dict[int, Process], foreign: set[int]) -> set[int]:
        """The processes of `table` that belong to this command; `foreign` are the main processes of others."""
        candidates = {pid: each for pid, each in table.items() if pid not in foreign}
        found = {pid for pid, each in candidates.items() if self._is_seed(each)}
        while True:
            new = {
                pid
                for pid, each in candidates.items()
                if pid not in found and not found.isdisjoint((each.parent, each.session, each.group))
            }
            if not new:
                return found
            found |= new

    def _is_seed(self, process: Process) -> bool:
        return self.session in (process.pid, process.session, process.group) or process.carries(self.marker)


class Plan:
    """A checked `start` request. Raises ValueError where it is none."""

    def __init__(self, request: dict[str, object]) -> None:
        argv, env, pty, nofile = (request.get(key) for key in ("argv", "env", "pty", "nofile"))
        if not isinstance(argv, list) or not argv or not isinstance(env, dict):
            raise ValueError("argv and env expected")
        self.exec_id = encoded(request.get("exec")).decode()
        self.instance = request.get("instance")
        self.argv = [encoded(word) for word in argv]
        self.env = {encoded(name): encoded(value) for name, value in env.items()}
        self.env[MARKER.encode()] = self.exec_id.encode()
        self.cwd = encoded(request.get("cwd"))
        self.nofile = None if nofile is None else integer(nofile, 3, 2**31)
        self.size: tuple[int, int] | None = None
        if isinstance(pty, dict):
            self.size = integer(pty.get("rows"), 0, 65_535), integer(pty.get("cols"), 0, 65_535)

    def open_pty(self) -> tuple[int, int]:
        master, slave = os.openpty()
        fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("4H", *(self.size or (0, 0)), 0, 0))
        return master, slave

    def spawn(self, stdio: list[int], soft_nofile: int) -> int:
        """The pid of the command, which has become its program by then. Raises `Refused`.

        Without a copy of init: its memory is lent to the child until the exec, which takes a third of the time.
        The child inherits its directory and limits from init, which therefore changes its own for that moment.
        """
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        try:
            self._enter()
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(self.nofile or soft_nofile, hard), hard))
            return self._execute(self._streams(stdio))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            os.chdir("/")

    def _enter(self) -> None:
        try:
            os.chdir(self.cwd)
        except OSError as error:
            raise Refused("BAD_CWD", error) from error

    def _streams(self, stdio: list[int]) -> list[tuple[int | bytes, ...]]:
        if self.size is None:
            return [(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(stdio)]
        # The first terminal that the leader of a new session opens becomes the session's.
        terminal = os.ttyname(stdio[0]).encode()
        opened = (os.POSIX_SPAWN_OPEN, 0, terminal, os.O_RDWR, 0)
        return [opened, (os.POSIX_SPAWN_DUP2, 0, 1), (os.POSIX_SPAWN_DUP2, 0, 2)]

    def _execute(self, streams: list[tuple[int | bytes, ...]]) -> int:
        failure: OSError = FileNotFoundError(errno.ENOENT, "not found")
        for program in self._candidates():
            try:
                return os.posix_spawn(
                    program, self.argv, self.env,
                    file_actions=streams, setsid=True, setsigmask=[], setsigdef=IGNORED_BY_INIT,
                )  # fmt: skip
            except (FileNotFoundError, NotADirectoryError):
                continue
            except PermissionError as error:
                failure = error
            except OSError as error:
                failure = error
                break
        raise Refused("EXEC", failure)

    def _candidates(self) -> list[bytes]:
        name = self.argv[0]
        if not name or b"/" in name:
            return [name] if name else []
        places = [(place or b".") + b"/" + name for place in self.env.get(b"PATH", DEFAULT_PATH).split(b":")]
        return [place for place in places if os.access(place, os.F_OK)]


class Refused(Exception):
    """A command did not begin."""

    def __init__(self, stage: str, error: OSError) -> None:
        super().__init__(stage)
        number = error.errno or 0
        self.code = EXEC_ERRORS.get(number, "FAILED") if stage == "EXEC" else stage
        self.message = os.strerror(number) if number else "cannot be started"


def ending(status: int, usage: resource.struct_rusage) -> dict[str, object]:
    used = {"user_s": usage.ru_utime, "sys_s": usage.ru_stime, "max_rss_kb": usage.ru_maxrss}
    if os.WIFSIGNALED(status):
        return {"exit": {"signal": os.WTERMSIG(status), "core": os.WCOREDUMP(status)}, "rusage": used}
    return {"exit": {"code": os.WEXITSTATUS(status)}, "rusage": used}


def prefer_for_oom(pid: int) -> None:
    """When memory runs out the kernel is to take a command, not init and with it the sandbox."""
    try:
        with open(f"/proc/{pid}/oom_score_adj", "w") as file:
            file.write("1000")
    except OSError:
        return
