"""What is really on disk, where something may have changed. Nothing is read but directories and links."""

import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from contracts.events.file import EntryKind
from contracts.sight import Seen, Sight
from infra.watching.descent import Descent
from infra.watching.dirty import Dirty

MAX_PATH = 4096
NAMES_AT_ONCE = 100_000

Ignored = Callable[[bytes, bool], bool]
"""Called with a path and whether it is a directory. What is ignored counts as not there."""
Cover = Callable[[int, bytes], bool]
"""Called with each directory, open, and its path, before it is listed; False where it cannot be watched."""

_KINDS = {stat.S_IFREG: EntryKind.FILE, stat.S_IFDIR: EntryKind.DIRECTORY, stat.S_IFLNK: EntryKind.SYMLINK}
_GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})


def seen_of(info: os.stat_result, target: bytes | None = None) -> Seen:
    kind = _KINDS.get(stat.S_IFMT(info.st_mode), EntryKind.OTHER)
    return Seen(
        kind,
        stat.S_IMODE(info.st_mode),
        info.st_size if kind == EntryKind.FILE else 0,
        info.st_mtime_ns,
        info.st_ctime_ns,
        info.st_ino,
        info.st_nlink,
        target,
    )


def too_many(most: int) -> OSError:
    return OSError(errno.EDQUOT, f"more than {most} entries: the rest is not followed")


def look(
    root: int, dirty: Dirty, *, ignored: Ignored, cover: Cover, covers: Callable[[bytes], bool], most: int
) -> Sight:
    """Looks at each dirty place; directories that are new, or said to be, with all beneath them.

    No more than `most` entries are found by listing: the rest is trouble (`EDQUOT`) with the workspace itself.
    """
    eye = _Eye(root, ignored, cover, covers, most)
    with eye.descent:
        if dirty.everything:
            eye.tree(b"")
        else:
            eye.trees(dirty.trees)
            eye.places(dirty.paths - eye.sight.found.keys())
    return eye.sight


class _Eye:
    def __init__(self, root: int, ignored: Ignored, cover: Cover, covers: Callable[[bytes], bool], most: int) -> None:
        self._most = most
        self.descent = Descent(root)
        self.sight = Sight()
        self._ignored = ignored
        self._cover = cover
        self._covers = covers
        self._hidden: dict[bytes, bool] = {}

    def trees(self, paths: Iterable[bytes]) -> None:
        for path in sorted(paths):
            if path and path not in self.sight.found:
                self._place(path)
            if path not in self.sight.listed and (not path or self._is_directory(path)):
                self.tree(path)

    def places(self, paths: Iterable[bytes]) -> None:
        for path in sorted(paths):
            if path:
                self._place(path)
            # A notice about the directory itself need not mean that it was listed: it may have come with its move.
            if path and self._is_directory(path) and path not in self.sight.listed and not self._covers(path):
                self.tree(path)

    def tree(self, path: bytes) -> None:
        waiting = [path]
        while waiting:
            waiting += self._list(waiting.pop())

    def _is_directory(self, path: bytes) -> bool:
        seen = self.sight.found.get(path)
        return seen is not None and seen.kind == EntryKind.DIRECTORY

    def _place(self, path: bytes) -> None:
        above, _, name = path.rpartition(b"/")
        if self._is_hidden(above):
            self.sight.gone.add(path)
            return
        try:
            self._note(path, self.descent.open(above.split(b"/") if above else []), name)
        except OSError as error:
            self._missed(path, error)

    def _is_hidden(self, directory: bytes) -> bool:
        """By a rule for it, or for one that it is in: the rules say what they think of one entry at a time."""
        if not directory:
            return False
        known = self._hidden.get(directory)
        if known is None:
            known = self._is_hidden(directory.rpartition(b"/")[0]) or self._ignored(directory, True)
            self._hidden[directory] = known
        return known

    def _note(self, path: bytes, directory: int, name: bytes) -> None:
        info = os.stat(name, dir_fd=directory, follow_symlinks=False)
        if self._ignored(path, stat.S_ISDIR(info.st_mode)):
            self.sight.gone.add(path)
            return
        target = os.readlink(name, dir_fd=directory) if stat.S_ISLNK(info.st_mode) else None
        self.sight.found[path] = seen_of(info, target)

    def _list(self, path: bytes) -> list[bytes]:
        """Notes all that is directly in a directory; the directories among it."""
        below: list[bytes] = []
        try:
            directory = self.descent.open(path.split(b"/") if path else [])
            if not self._cover(directory, path):
                self.sight.uncovered = True
            for name in _names(directory):
                if len(self.sight.found) >= self._most:
                    self.sight.troubles[b""] = too_many(self._most)
                    return []
                inside = path + b"/" + name if path else name
                self._enter(path, directory, name, inside)
                if self._is_directory(inside):
                    below.append(inside)
        except OSError as error:
            self._missed(path, error)
            return []
        self.sight.listed.add(path)
        return below

    def _enter(self, path: bytes, directory: int, name: bytes, inside: bytes) -> None:
        if len(inside) > MAX_PATH:
            self.sight.troubles[path] = OSError(errno.ENAMETOOLONG, f"a path of more than {MAX_PATH} bytes")
            return
        try:
            self._note(inside, directory, name)
        except OSError as error:
            self._missed(inside, error)

    def _missed(self, path: bytes, error: OSError) -> None:
        if error.errno in _GONE:
            self.sight.gone.add(path)
            self.sight.found.pop(path, None)
        else:
            self.sight.troubles[path] = error


def _names(directory: int) -> Iterator[bytes]:
    """Of all entries. At once, so that none is missed that is renamed meanwhile, unless there are very many."""
    with os.scandir(directory) as entries:
        while some := [os.fsencode(entry.name) for entry in islice(entries, NAMES_AT_ONCE)]:
            yield from some
