"""A log to be read: the one that is being written, or one that was brought from elsewhere. Sequences are its own."""

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from infra.bus.page import Entry
from infra.bus.reader import Bounds, Gap, OnGap


class BlobSource(Protocol):
    """Contents by their sha256, checked when they are read."""

    async def has(self, sha256: str) -> bool: ...

    async def get(self, sha256: str, max_bytes: int = ...) -> bytes: ...

    def stream(self, sha256: str) -> AsyncIterator[bytes]: ...

    def get_many(self, names: Sequence[str]) -> AsyncIterator[tuple[str, bytes]]: ...


class LogView(Protocol):
    @property
    def blobs(self) -> BlobSource: ...

    async def bounds(self) -> Bounds:
        """The first and the last sequence. Raises `Unavailable`."""
        ...

    def read(
        self, filters: Sequence[str], start: int = 1, *, end: int | None = None, on_gap: OnGap | None = None
    ) -> AsyncIterator[Entry]:
        """What is stored and matches any of the filters, from `start` up to `end`, in order. As `reader.read`."""
        ...

    async def lost(self, first: int, last: int) -> list[Gap]:
        """What it lacks within a range, as far as the server and the auditor say: for what is not read with `read`,
        or is remembered from an earlier reading. Raises `Unavailable`.
        """
        ...

    async def first(self, filter_: str, *, start: int = 1) -> Entry | None:
        """The oldest entry that matches, at or after `start`. Raises `Unavailable`."""
        ...

    async def last(self, filter_: str) -> Entry | None:
        """The newest entry that matches. Raises `Unavailable`."""
        ...

    async def lasts(self, subjects: Sequence[str], *, up_to: int | None = None) -> list[Entry]:
        """The newest of each subject, up to a sequence: 1,000 at most, wildcards count. Raises `Unavailable`."""
        ...
