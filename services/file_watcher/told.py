"""The tree of a workspace as the log has it, and what lets us see that something on disk is still the same."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from contracts.events.file import EntryKind
from contracts.manifest import Entry, Tree, micros
from contracts.sight import Seen


class Mark(NamedTuple):
    """While these are the same, so is the content: nobody inside can set `ctime`."""

    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int


class Known(NamedTuple):
    """That the file at a path, as long as it has this mark, has this content."""

    path: bytes
    mark: Mark
    mode: int
    sha256: str


def mark_of(seen: Seen) -> Mark:
    return Mark(seen.inode, seen.size, seen.mtime_ns, seen.ctime_ns)


class Told:
    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self._marks: dict[bytes, Mark] = {}
        self._firm: set[bytes] = set()
        """Whose marks stand for their content even if somebody has them mapped."""
        self.has_learned = False
        """There is something new in `known`."""
        self._inodes: dict[int, bytes] = {}
        self._inode_of: dict[bytes, int] = {}
        self._links: dict[int, set[bytes]] = {}
        """Paths of files that have several."""
        self._below: dict[bytes, set[bytes]] = {}
        for path in tree:
            self._below.setdefault(_above(path), set()).add(path)

    def put(self, path: bytes, entry: Entry) -> None:
        # Its mark is of what was there before.
        self._forget_mark(path)
        self.tree[path] = entry
        self._below.setdefault(_above(path), set()).add(path)

    def saw(self, path: bytes, seen: Seen, *, sure: bool, firm: bool = False) -> None:
        """What is on disk for an entry that is in the tree; `sure` where its mark stands for its content."""
        self._forget_inode(path)
        if seen.links > 1:
            # The others may have been seen when they were alone.
            self._links.setdefault(seen.inode, set()).update({path, self._inodes.get(seen.inode, path)})
        self._inodes[seen.inode] = path
        self._inode_of[path] = seen.inode
        mark = mark_of(seen)
        self.has_learned |= firm and (path not in self._firm or self._marks[path] != mark)
        self._forget_mark(path)
        if sure:
            self._marks[path] = mark
            if firm:
                self._firm.add(path)

    def known(self) -> Iterator[Known]:
        """What stays true while nobody looks: of files whose content is kept, whoever may have them mapped."""
        for path in self._firm:
            entry = self.tree[path]
            if entry.sha256 is not None and entry.blob == entry.sha256:
                yield Known(path, self._marks[path], entry.mode, entry.sha256)

    def recall(self, known: Known) -> bool:
        """Counts as seen, if that is what was told."""
        entry, mark = self.tree.get(known.path), known.mark
        if entry is None or entry.kind != EntryKind.FILE or entry.blob != known.sha256:
            return False
        if (entry.size, entry.mode, entry.mtime_us) != (mark.size, known.mode, micros(mark.mtime_ns)):
            return False
        self._marks[known.path] = mark
        self._firm.add(known.path)
        self._inodes[mark.inode] = known.path
        self._inode_of[known.path] = mark.inode
        return True

    def drop(self, path: bytes) -> None:
        self.tree.pop(path, None)
        self._forget_inode(path)
        self._forget_mark(path)
        siblings = self._below.get(_above(path))
        if siblings is not None:
            siblings.discard(path)
            if not siblings:
                del self._below[_above(path)]

    def _forget_mark(self, path: bytes) -> None:
        self._marks.pop(path, None)
        self._firm.discard(path)

    def _forget_inode(self, path: bytes) -> None:
        inode = self._inode_of.pop(path, None)
        if inode is None:
            return
        if self._inodes.get(inode) == path:
            del self._inodes[inode]
        links = self._links.get(inode)
        if links is not None:
            links.discard(path)
            if not links:
                del self._links[inode]

    def same(self, path: bytes, seen: Seen, *, firmly: bool = False) -> bytes | None:
        """Where the file that was seen at `path` was told, surely with this content.

        There, or at another path, as when a directory above it was moved. `firmly`: whoever may have it mapped.
        """
        mark = mark_of(seen)
        for place in (path, self.path_of(seen.inode)):
            if place is not None and self._marks.get(place) == mark and (place in self._firm or not firmly):
                return place
        return None

    def is_firm(self, path: bytes) -> bool:
        return path in self._firm

    def directly_in(self, path: bytes) -> set[bytes]:
        return self._below.get(path, set())

    def beneath(self, path: bytes) -> Iterator[bytes]:
        """Everything told below a path, not the path itself."""
        waiting = list(self.directly_in(path))
        while waiting:
            each = waiting.pop()
            yield each
            waiting += self.directly_in(each)

    def path_of(self, inode: int) -> bytes | None:
        """Where it was told last, for finding moves. A guess: the number may belong to another file by now."""
        return self._inodes.get(inode)

    def inode_of(self, path: bytes) -> int | None:
        return self._inode_of.get(path)

    def linked(self, paths: Iterable[bytes]) -> set[bytes]:
        """All paths of the same files: a write through one of them is noticed only there."""
        inodes = {self._inode_of.get(path, -1) for path in paths}
        return {path for inode in inodes & self._links.keys() for path in self._links[inode]}


def _above(path: bytes) -> bytes:
    return path.rpartition(b"/")[0]
