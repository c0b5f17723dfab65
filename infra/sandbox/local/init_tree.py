"""The processes of a local sandbox as init sees them: how a command's begins, and which belong to it later.

Loaded by `init.py` from its own directory; standard library only.
"""
# ruff: noqa: PTH123, PTH208, S606

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

    def __init__(self, exec_id: str, pid: int, report: int, master: list[int]) -> None:
        self.exec_id, self.pid, self.report, self.master = exec_id, pid, report, master
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

    def become(self, stdio: list[int], report: int, soft_nofile: int) -> None:
        """In the forked child: turns into the command, or reports why not. Never returns."""
        stage = "FAILED"
        try:
            self._take_stdio(stdio)
            self._reset(soft_nofile)
            stage = "BAD_CWD"
            os.chdir(self.cwd)
            stage = "EXEC"
            self._execute()
        except OSError as error:
            os.write(report, f"{stage} {error.errno}".encode())
        except BaseException:  # noqa: BLE001  a child that came back would be a second init
            os.write(report, b"FAILED 0")
        finally:
            os._exit(127)

    def _take_stdio(self, stdio: list[int]) -> None:
        os.setsid()
        if self.size is not None:
            fcntl.ioctl(stdio[0], termios.TIOCSCTTY, 0)
        for number, fd in enumerate(stdio):
            os.dup2(fd, number)

    def _reset(self, soft_nofile: int) -> None:
        for signum in IGNORED_BY_INIT:
            signal.signal(signum, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        os.umask(0o022)
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(self.nofile or soft_nofile, hard), hard))

    def _execute(self) -> None:
        if not self.argv[0]:
            raise FileNotFoundError(errno.ENOENT, "an empty name")
        if b"/" in self.argv[0]:
            os.execve(self.argv[0], self.argv, self.env)
        denied: OSError | None = None
        for directory in self.env.get(b"PATH", DEFAULT_PATH).split(b":"):
            try:
                os.execve((directory or b".") + b"/" + self.argv[0], self.argv, self.env)
            except (FileNotFoundError, NotADirectoryError):
                continue
            except PermissionError as error:
                denied = error
        raise denied or FileNotFoundError(errno.ENOENT, "not on PATH")


def ending(status: int, usage: resource.struct_rusage) -> dict[str, object]:
    used = {"user_s": usage.ru_utime, "sys_s": usage.ru_stime, "max_rss_kb": usage.ru_maxrss}
    if os.WIFSIGNALED(status):
        return {"exit": {"signal": os.WTERMSIG(status), "core": os.WCOREDUMP(status)}, "rusage": used}
    return {"exit": {"code": os.WEXITSTATUS(status)}, "rusage": used}


def refusal(report: str) -> dict[str, object]:
    """The answer to a start whose child reported a stage and an errno."""
    stage, _, number = report.partition(" ")
    code = EXEC_ERRORS.get(int(number), "FAILED") if stage == "EXEC" else stage
    return {"ok": False, "code": code, "error": os.strerror(int(number)) if int(number) else "cannot be started"}


def prefer_for_oom(pid: int) -> None:
    """When memory runs out the kernel is to take a command, not init and with it the sandbox."""
    try:
        with open(f"/proc/{pid}/oom_score_adj", "w") as file:
            file.write("1000")
    except OSError:
        return
