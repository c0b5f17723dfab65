"""Places outside that checkpoints are written to, so that whoever owns this machine cannot take them back."""

import asyncio
import contextlib
import os
import sys
from pathlib import Path
from typing import Protocol

from contracts.errors import Invalid, Unavailable
from infra.watching.threads import in_thread
from infra.worktree.git_settings import identity

GIT_FILE = "cloche-checkpoints.jsonl"
GIT_S = 60.0
LOOK_BACK = 256 * 1024
"""Of a file's end, where a line that is there already is looked for."""


class Target(Protocol):
    name: str
    """As in the settings."""

    async def append(self, lines: list[bytes]) -> None:
        """There to stay when this returns; a line that is at the end already is not written again.

        Raises `Unavailable` with the reason.
        """
        ...


class FileTarget:
    def __init__(self, name: str, path: Path) -> None:
        self.name = name
        self._path = path

    async def append(self, lines: list[bytes]) -> None:
        try:
            await in_thread(append_lines, self._path, lines)
        except OSError as error:
            raise Unavailable(f"{self._path}: {error.strerror or error}") from error


class GitTarget:
    """One commit for what is new, of the one file alone: whatever else is changed or staged there is left alone."""

    def __init__(self, name: str, repository: Path) -> None:
        self.name = name
        self._repository = repository

    async def append(self, lines: list[bytes]) -> None:
        if (await self._git("rev-parse", "--is-inside-work-tree")).strip() != b"true":
            raise Unavailable(f"{self._repository} is not the working tree of a git repository")
        try:
            await in_thread(append_lines, self._repository / GIT_FILE, lines)
        except OSError as error:
            raise Unavailable(f"{self._repository / GIT_FILE}: {error.strerror or error}") from error
        if await self._git("status", "--porcelain", "--ignored", "--", GIT_FILE):
            # Also after a crash between the line and its commit.
            await self._git("add", "--force", "--", GIT_FILE)
            await self._git("commit", "--quiet", "--no-edit", "-m", "Cloche checkpoint", "--only", "--", GIT_FILE)

    async def _git(self, *arguments: str) -> bytes:
        """What it said. Raises `Unavailable` with its complaint."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        try:
            running = await asyncio.create_subprocess_exec(
                *("git", "-C", str(self._repository), *arguments),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env={**kept, **identity("cloche"), "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"},
            )
        except OSError as error:
            raise Unavailable(f"git: {error.strerror or error}") from error
        said, complaint = await _bounded(running, arguments[0])
        if running.returncode:
            words = (complaint or said).decode("utf-8", "replace").strip()
            raise Unavailable(f"git {arguments[0]} in {self._repository}: {words[:300]}")
        return said


class StdoutTarget:
    name = "stdout:"

    async def append(self, lines: list[bytes]) -> None:
        try:
            await in_thread(_print, lines)
        except (OSError, ValueError) as error:
            raise Unavailable(f"stdout: {error}") from error


def target_of(name: str) -> Target:
    """Raises `Invalid` for what is none."""
    kind, _, rest = name.partition(":")
    if kind == "stdout" and not rest:
        return StdoutTarget()
    path = Path(rest).expanduser()
    if kind in ("file", "git") and path.is_absolute():
        return FileTarget(name, path) if kind == "file" else GitTarget(name, path)
    raise Invalid(f"audit.anchors: {name[:200]!r} is none of file:/path, git:/path/of/a/repository, stdout:")


def append_lines(path: Path, lines: list[bytes]) -> None:
    """What is not at the end of the file already, on the disk when this returns. Raises OSError."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    with os.fdopen(fd, "r+b", buffering=0) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - LOOK_BACK))
        end = file.read(LOOK_BACK) or b""
        there = set(end.split(b"\n"))
        # A line that a crash left half written must not take the next one with it.
        healed = b"\n" if end and not end.endswith(b"\n") else b""
        fresh = b"".join(line + b"\n" for line in lines if line not in there)
        if fresh:
            _write_all(fd, healed + fresh)
        os.fsync(fd)


def _write_all(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


def _print(lines: list[bytes]) -> None:
    sys.stdout.write("".join(line.decode() + "\n" for line in lines))
    sys.stdout.flush()


async def _bounded(running: asyncio.subprocess.Process, what: str) -> tuple[bytes, bytes]:
    """Never left behind. Raises `Unavailable` when it takes too long."""
    try:
        async with asyncio.timeout(GIT_S):
            return await running.communicate()
    except TimeoutError:
        raise Unavailable(f"git {what} takes longer than {GIT_S:g} s") from None
    finally:
        if running.returncode is None:
            # Not SIGKILL: git takes its locks away.
            with contextlib.suppress(ProcessLookupError):
                running.terminate()
            await running.wait()
