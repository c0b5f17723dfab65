"""Searching files for a regular expression, in time that is linear in what is read.

The engine goes over large blocks at once, not line by line, and lets other threads run meanwhile; a pattern that would
make another engine try for ever is no slower here.
"""

import os
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any

from contracts import codec
from contracts.errors import ClocheError, Invalid, Unavailable
from contracts.files import GrepFiles, GrepMatch, GrepResult
from contracts.spelling import Spelled
from infra.files.directories import AT_A_TIME, next_name, sorted_names
from infra.files.entries import may_be_entered
from infra.files.lines import Line, lines_with
from infra.files.paths import Names, shown
from infra.files.patterns import PathPattern, regexp
from infra.files.trouble import told
from infra.files.workspace import Workspace

WINDOW = 4 << 20
LEAST_WINDOW = 64 << 10
HEAD = 8192
"""A NUL in the first so many bytes: binary, skipped."""
MAX_PROGRAM = 5000
"""Of a compiled pattern: the time for a byte grows with it."""
WORK = 1 << 28
"""Bytes in a window times the size of the program: what is done between two looks at the clock."""
MAX_BYTES = 600_000
"""Of all that is told in one answer."""
FILE_COST = 16 << 10
"""What opening a file costs, in bytes that could be searched meanwhile."""
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def grep_files(workspace: Workspace, request: GrepFiles) -> GrepResult:
    """Raises `Invalid` for a bad pattern or one that is too large, `SandboxFileNotFound`, `SandboxPathDenied`."""
    names = workspace.names(request.path, request.path_bytes)
    search = _Search(workspace, names, request)
    with told(workspace.shown(names), Unavailable):
        try:
            search.run()
        except _Enough as enough:
            return search.result(str(enough))
    return search.result(None)


class _Enough(Exception):
    """There may be more, but not in this answer. Says what was used up."""


class _Search:
    def __init__(self, workspace: Workspace, top: Names, request: GrepFiles) -> None:
        self._workspace = workspace
        self._top = top
        self._request = request
        flags = "(?mi)" if request.ignore_case else "(?m)"
        self._regexp = _checked(regexp(request.pattern, flags=flags, shown=request.pattern, within_lines=True))
        self._window = max(LEAST_WINDOW, min(WINDOW, WORK // self._regexp.programsize))
        self._files = None if request.files is None else PathPattern(request.files, by_name=True)
        self._deadline = time.monotonic() + request.timeout_ms / 1000
        self._found: list[GrepMatch] = []
        self._size = self._searched = self._matched = self._binary = self._too_deep = 0
        self._done = 0
        """Work since the clock was looked at."""

    def result(self, truncated_by: str | None) -> GrepResult:
        return GrepResult(
            path=self._workspace.shown(self._top),
            matches=tuple(self._found),
            files_searched=self._searched,
            files_matched=self._matched,
            binary_skipped=self._binary,
            truncated=truncated_by is not None,
            truncated_by=truncated_by,
            too_deep=self._too_deep,
        )

    def run(self) -> None:
        with self._workspace.found(self._top) as descriptor:
            is_directory = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        if is_directory:
            self._tree()
            return
        with self._workspace.file(self._top) as descriptor:
            self._file(descriptor, ())

    def _tree(self) -> None:
        waiting = [self._directory(())]
        while waiting:
            beneath = next(waiting[-1], None)
            if beneath is None:
                waiting.pop()
            elif may_be_entered((*self._top, *beneath)):
                waiting.append(self._quietly(beneath))
            else:
                self._too_deep += 1

    def _quietly(self, names: Names) -> Iterator[Names]:
        """Gone, or not to be looked into; only the directory that was asked for must be there."""
        with suppress(OSError, ClocheError):
            yield from self._directory(names)

    def _directory(self, names: Names) -> Iterator[Names]:
        """Search its files; then the directories in it."""
        self._look_at_clock()
        directories: list[bytes] = []
        least: bytes | None = b""
        while least is not None:
            with self._workspace.directory((*self._top, *names)) as directory:
                wanted = partial(self._is_file, [] if least else directories)
                files = sorted_names(directory, least, wanted=wanted)
                for name in files:
                    self._look_at_clock()
                    if self._files is None or self._files.matches(b"/".join((*names, name))):
                        self._open(directory, (*names, name))
            least = next_name(files)
        if len(directories) < AT_A_TIME:
            yield from ((*names, name) for name in sorted(directories))
        else:
            yield from self._many_directories(names)

    def _many_directories(self, names: Names) -> Iterator[Names]:
        least: bytes | None = b""
        while least is not None:
            with self._workspace.directory((*self._top, *names)) as directory:
                found = sorted_names(directory, least, wanted=self._is_directory)
            yield from ((*names, name) for name in found)
            least = next_name(found)

    def _is_file(self, directories: list[bytes], entry: "os.DirEntry[str]") -> bool:
        """Directories are noted on the way, as many as are bearable."""
        self._look_at_clock()
        if len(directories) < AT_A_TIME and entry.is_dir(follow_symlinks=False):
            directories.append(os.fsencode(entry.name))
            return False
        return entry.is_file(follow_symlinks=False)

    def _is_directory(self, entry: "os.DirEntry[str]") -> bool:
        self._look_at_clock()
        return entry.is_dir(follow_symlinks=False)

    def _open(self, directory: int, path: Names) -> None:
        """It was a file a moment ago: if it is a pipe by now, opening it does not wait, and it is not read."""
        try:
            descriptor = os.open(path[-1], _OPEN, dir_fd=directory)
        except OSError:
            return
        try:
            self._file(descriptor, path)
        except OSError:
            return
        finally:
            os.close(descriptor)

    def _file(self, descriptor: int, path: Names) -> None:
        info = os.fstat(descriptor)
        try:
            self._workspace.check_readable(info)
        except ClocheError:
            return
        self._searched += 1
        before = len(self._found)
        try:
            if info.st_size < self._window and len(data := os.read(descriptor, info.st_size + 1)) <= info.st_size:
                self._block(data, 1, path, is_head=True)
            else:
                os.lseek(descriptor, 0, os.SEEK_SET)
                self._blocks(descriptor, path)
        finally:
            self._matched += len(self._found) > before

    def _blocks(self, descriptor: int, path: Names) -> None:
        """The file in pieces that end with a line, as far as a line fits; memory stays flat."""
        line, is_head, left = 1, True, b""
        while data := os.read(descriptor, self._window):
            data = left + data
            cut = data.rfind(b"\n") + 1 or len(data)
            data, left = data[:cut], data[cut:]
            if not self._block(data, line, path, is_head=is_head):
                return
            line += data.count(b"\n")
            is_head = False
        self._block(left, line, path, is_head=is_head)

    def _block(self, data: bytes, first: int, path: Names, *, is_head: bool) -> bool:
        """False for a binary file."""
        if is_head and data.find(b"\x00", 0, HEAD) >= 0:
            self._binary += 1
            self._look_at_clock()
            return False
        self._done += len(data) + FILE_COST
        if self._done > self._window:
            self._done = 0
            self._look_at_clock()
        match = self._regexp.search(data)
        if match is not None:
            where = shown((*self._top, *path), self._workspace.inside)
            for line in lines_with(self._regexp, data, first, self._request.context):
                self._add(where, line)
        return True

    def _look_at_clock(self) -> None:
        if time.monotonic() > self._deadline:
            raise _Enough("time")

    def _add(self, path: Spelled, line: Line) -> None:
        if len(self._found) == self._request.limit:
            raise _Enough("matches")
        match = GrepMatch(
            path=path.text,
            path_bytes=path.encoded,
            line=line.number,
            text=line.text,
            before=line.before,
            after=line.after,
        )
        self._size += len(codec.encode(match))
        if self._size > MAX_BYTES:
            raise _Enough("bytes")
        self._found.append(match)


def _checked(compiled: Any) -> Any:
    if compiled.programsize > MAX_PROGRAM:
        raise Invalid(f"the pattern is too large: {compiled.programsize} steps, {MAX_PROGRAM} at most")
    return compiled
