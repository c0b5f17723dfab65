"""Sessions of other logs, brought here for reading, on `cloche.rpc.state.import` and `.imports`.

A file of `contracts.exports` is sent piece by piece, from its first byte to its last. The first piece goes to
`cloche.rpc.state.import`; whoever answers it takes the others, at the place that the answer names. Nothing of it is to
be seen before the last piece has come. After any failure the same file may be sent again from its beginning: what is
stored already is not stored twice.
"""

from typing import Annotated

from msgspec import Meta, Struct

from contracts.ids import SandboxId, Token
from contracts.message import Order, Time

PIECE_BYTES = 256 * 1024
MOST_PARTS = 1000
"""Files that brought something of one sandbox."""
SEQUENCE_HEADER = "Cloche-Sequence"
STORED_AT_HEADER = "Cloche-Stored-At"
ID_HEADER = "Cloche-Id"
"""What an event was in its own log, as headers of the message in the archive."""


def import_id(sha256: str) -> str:
    """The same for the same file, and for no other: made of the sha256 of all that is in it, unpacked."""
    return f"im-{sha256[:40]}"


class ImportPiece(Order, frozen=True, kw_only=True):
    """The next bytes of an export that is not compressed."""

    import_id: Token
    """See `import_id`."""
    part: Annotated[int, Meta(ge=0, le=2**53)]
    """Pieces are numbered from 0. The last that came may come again."""
    data: Annotated[bytes, Meta(max_length=PIECE_BYTES)]
    """In base64."""
    last: bool = False


class ImportProgress(Struct, frozen=True, kw_only=True):
    place: str
    """The last token of the subject that takes the next piece: `cloche.rpc.state.import.<place>`."""
    events: int
    blobs: int
    sandboxes: tuple[str, ...] = ()
    """Once the last piece came: what can be read now; the first 1,000."""


class ListImports(Order, frozen=True, kw_only=True):
    after: str | None = None
    """Continue behind this sandbox id."""
    limit: Annotated[int, Meta(ge=1, le=1000)] = 1000


class ImportedPart(Struct, frozen=True, kw_only=True):
    """What one file brought of a sandbox. Parts do not overlap, and what is there is never replaced by a later file."""

    import_id: str
    first_sequence: int
    last_sequence: int
    """Of the sandbox's own events."""
    first_imported: int
    last_imported: int
    """Of everything that was in the file, in its own log: what proves the last event comes after it."""
    archived_first: int
    archived_last: int
    """The same in the archive."""


class Imported(Struct, frozen=True, kw_only=True):
    """A sandbox that can be read, though it was never here."""

    sandbox: SandboxId
    log: str
    """The log that it is from; empty where nothing tells."""
    events: int
    parts: tuple[ImportedPart, ...]
    """In the order of their sequences."""
    imported_at: Time

    @property
    def first_sequence(self) -> int:
        return self.parts[0].first_sequence

    @property
    def last_sequence(self) -> int:
        return self.parts[-1].last_sequence


class ImportList(Struct, frozen=True, kw_only=True):
    imports: tuple[Imported, ...]
    more: bool = False


REQUESTS: dict[str, type[Order]] = {"import": ImportPiece, "imports": ListImports}
ANSWERS: dict[str, type[Struct]] = {"import": ImportProgress, "imports": ImportList}
