"""Which directories of a workspace file operations may touch."""

from collections.abc import Iterable
from typing import NamedTuple

from contracts.spec import Permissions
from infra.files.paths import Names


class Allowed(NamedTuple):
    directories: tuple[Names, ...]

    @property
    def everything(self) -> bool:
        return () in self.directories

    def covers(self, names: Names) -> bool:
        """`names` must be the way without symbolic links."""
        return any(names[: len(directory)] == directory for directory in self.directories)


class Rights(NamedTuple):
    read: Allowed
    write: Allowed


def rights_of(permissions: Permissions) -> Rights:
    return Rights(_allowed(permissions.read), _allowed(permissions.write))


def _allowed(directories: Iterable[str]) -> Allowed:
    """A directory that is spelled with `..` allows nothing."""
    split = [tuple(name for name in path.encode().split(b"/") if name not in (b"", b".")) for path in directories]
    return Allowed(tuple(names for names in split if b".." not in names))
