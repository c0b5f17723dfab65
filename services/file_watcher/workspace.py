"""A workspace's directory on the node, held open."""

import errno
import os
from pathlib import Path
from types import TracebackType
from typing import Self

from contracts.events.file import EntryKind
from contracts.manifest import Tree
from infra.manifest.ignore import Rules

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PASSES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})


class Workspace:
    def __init__(self, place: Path) -> None:
        """Raises `OSError` where there is no such directory, or no room to open it now."""
        self._place = place
        self.root = os.open(place, _DIRECTORY)
        self.rules = Rules()
        self.rules_trouble = self._read_rules()
        """Why they are those that were read last."""
        if self.rules_trouble is not None and self.rules_trouble.errno in _PASSES:
            # Without them everything that they hide would be told.
            os.close(self.root)
            raise self.rules_trouble

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self.root)

    def is_there(self) -> bool:
        """False once it is being removed: what happens to its files then is nobody's work."""
        try:
            return os.path.samestat(os.stat(self._place, follow_symlinks=False), os.fstat(self.root))  # noqa: PTH116
        except OSError:
            return False

    def reload_rules(self) -> bool:
        """True if they are others than before."""
        before = self.rules
        self.rules_trouble = self._read_rules()
        return before.text != self.rules.text

    def _read_rules(self) -> OSError | None:
        try:
            self.rules = Rules.read(self.root)
        except OSError as error:
            return error
        return None

    def hidden(self, tree: Tree) -> set[bytes]:
        """What the rules ignore of it, by a rule for it or for a directory that it is in."""
        found: set[bytes] = set()
        for path in sorted(tree):
            is_directory = tree[path].kind == EntryKind.DIRECTORY
            if path.rpartition(b"/")[0] in found or self.rules.ignores(path, is_directory):
                found.add(path)
        return found
