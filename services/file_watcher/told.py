"""The tree of a workspace as the log has it, and what lets us see that something on disk is still the same."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from contracts.manifest import Entry, Tree
from contracts.sight import Seen


class Mark(NamedTuple):
    """While these are the same, so is the content: nobody inside can set `ctime`."""

    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int


def mark_of(seen: Seen) -> Mark:
    return Mark(seen.inode, seen.size, seen.mtime_ns, seen.ctime_ns)


class Told:
    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self._marks: dict[bytes, Mark] = {}
        self._inodes: dict[int, bytes] = {}
        self._inode_of: dict[bytes, int] = {}
        self._links: dict[int, set[bytes]] = {}
        """Paths of files that have several."""
        self._below: dict[bytes, set[bytes]] = {}
        for path in tree:
            self._below.setdefault(_above(path), set()).add(path)

    def put(self, path: bytes, entry: Entry) -> None:
        self.tree[path] = entry
        self._below.setdefault(_above(path), set()).add(path)

    def saw(self, path: bytes, seen: Seen, *, sure: bool) -> None:
        """What is on disk for an entry that is in the tree; `sure` where its mark stands for its content."""
        self._forget_inode(path)
        if seen.links > 1:
            # The others may have been seen when they were alone.
            self._links.setdefault(seen.inode, set()).update({path, self._inodes.get(seen.inode, path)})
        self._inodes[seen.inode] = path
        self._inode_of[path] = seen.inode
        if sure:
            self._marks[path] = mark_of(seen)
        else:
            self._marks.pop(path, None)

    def drop(self, path: bytes) -> None:
        self.tree.pop(path, None)
        self._forget_inode(path)
        self._marks.pop(path, None)
        siblings = self._below.get(_above(path))
        if siblings is not None:
            siblings.discard(path)
            if not siblings:
                del self._below[_above(path)]

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

    def is_same(self, path: bytes, seen: Seen) -> bool:
        """The file there is surely the one that was told."""
        return self._marks.get(path) == mark_of(seen)

    def same_elsewhere(self, seen: Seen) -> Entry | None:
        """What was told of the same unchanged file under another path, as when a directory above it was moved."""
        path = self.path_of(seen.inode)
        return self.tree.get(path) if path is not None and self.is_same(path, seen) else None

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
