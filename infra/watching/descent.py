"""Opening directories beneath a root by name, while somebody hostile moves them about."""

import errno
import os
from collections.abc import Sequence
from types import TracebackType
from typing import Self

MAX_DEPTH = 200
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Descent:
    """Holds the way to the directory that was opened last, so that its neighbours cost little.

    No name is ever a link, and none leads up: what was moved out of the tree meanwhile may still be seen for a moment,
    as when it was looked at before the move.
    """

    def __init__(self, root: int) -> None:
        self._root = root
        self._names: list[bytes] = []
        self._descriptors: list[int] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._back_to(0)

    def open(self, names: Sequence[bytes]) -> int:
        """The directory's descriptor, which stays open until the next call.

        Raises `OSError` for what is not there, not a directory, not ours to enter, or too deep (`ENAMETOOLONG`).
        """
        if len(names) > MAX_DEPTH:
            raise OSError(errno.ENAMETOOLONG, f"more than {MAX_DEPTH} directories deep")
        shared = 0
        while shared < min(len(names), len(self._names)) and names[shared] == self._names[shared]:
            shared += 1
        self._back_to(shared)
        for name in names[shared:]:
            self._descriptors.append(os.open(name, _DIRECTORY, dir_fd=self._here))
            self._names.append(name)
        return self._here

    @property
    def _here(self) -> int:
        return self._descriptors[-1] if self._descriptors else self._root

    def _back_to(self, depth: int) -> None:
        while len(self._descriptors) > depth:
            os.close(self._descriptors.pop())
            self._names.pop()
