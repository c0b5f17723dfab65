"""What nobody wants followed: neither told nor restored.

By default only what is nobody's work: swap and lock files of editors, leavings of file systems. `.git`, `node_modules`
and virtual environments are work: without them a restored workspace would not run.
"""

import errno
import os
import re
import stat
from typing import Self

import pathspec
import re2

from contracts.spelling import spell

FILE = b".clocheignore"
DEFAULTS = ("*.swp", "*.swo", "*.swx", ".#*", ".nfs*", ".DS_Store")
MAX_BYTES = 64 * 1024
MAX_PATTERNS = 1000

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_SUFFIXES = (b".swp", b".swo", b".swx")
_PREFIXES = (b".#", b".nfs")
_NO_RULES = frozenset({errno.ENOENT, errno.ELOOP, errno.ENXIO})
"""There is none, or something that is no file: a link, a socket."""
_REFUSALS = (ValueError, re.error, re2.error)


class Rules:
    """The defaults, and the lines of a workspace's `.clocheignore` in git's syntax: a later line wins, `!` takes back.

    Those lines are written inside the sandbox. They are matched in time linear in the path, whatever they say.
    """

    def __init__(self, text: str = "") -> None:
        self.text = text
        self.refused: tuple[str, ...] = ()
        """Lines that are no patterns, and so ignore nothing."""
        self._spec = self._compile(text.splitlines()) if text.strip() else None

    def ignores(self, path: bytes, is_directory: bool) -> bool:
        """Whether this entry is ignored by itself, or by a line for a directory that it is in.

        `path` is relative to the workspace. The workspace itself and its `.clocheignore` never are.
        """
        if path in (b"", FILE):
            return False
        if self._spec is None:
            name = path.rpartition(b"/")[2]
            return name.endswith(_SUFFIXES) or name.startswith(_PREFIXES) or name == b".DS_Store"
        return self._spec.match_file(spell(path).text + ("/" if is_directory else ""))

    def _compile(self, lines: list[str]) -> pathspec.GitIgnoreSpec | None:
        good = [line for line in lines[:MAX_PATTERNS] if _is_pattern(line)]
        self.refused = tuple(line for line in lines if line not in good)
        try:
            return _spec([*DEFAULTS, *good])
        except _REFUSALS:
            # Each by itself is a pattern, all together they are too large.
            self.refused = tuple(lines)
            return None

    @classmethod
    def read(cls, root: int) -> Self:
        """The rules of the workspace that `root` is open on; without a file of that name there are none.

        Raises `OSError` where there may be some that cannot be read.
        """
        try:
            descriptor = os.open(FILE, _READ, dir_fd=root)
        except OSError as error:
            if error.errno in _NO_RULES:
                return cls()
            raise
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return cls()
            return cls(os.pread(descriptor, MAX_BYTES, 0).decode("utf-8", "replace"))
        finally:
            os.close(descriptor)


def _is_pattern(line: str) -> bool:
    try:
        _spec([line])
    except _REFUSALS:
        return False
    return True


def _spec(lines: list[str]) -> pathspec.GitIgnoreSpec:
    return pathspec.GitIgnoreSpec.from_lines(lines, backend="re2")
