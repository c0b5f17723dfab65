"""What a client and the keeper say to each other: 4 bytes of big-endian length, then msgpack."""

import asyncio
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from contracts.errors import Failure
from infra.target import Target

VERSION = 1
MAX_MESSAGE = 8 * 1024 * 1024

Signum = Annotated[int, Meta(ge=1, le=64)]
Extent = Annotated[int, Meta(ge=0, le=65_535)]
Position = Annotated[int, Meta(ge=0)]
Scope = Literal["tree", "main", "rest"]
"""`rest`: the tree without the main process."""
State = Literal["starting", "running", "exited", "closed", "lost"]


class PtySize(Struct, frozen=True, kw_only=True):
    rows: Extent
    cols: Extent


class Request(Struct, frozen=True, kw_only=True, tag_field="op"):
    id: int


class Hello(Request, frozen=True, kw_only=True, tag="hello"):
    pass


class Start(Request, frozen=True, kw_only=True, tag="start"):
    exec: str
    target: Target
    argv: Annotated[tuple[str, ...], Meta(min_length=1)]
    env: dict[str, str]
    cwd: str
    pty: PtySize | None = None
    stdin: bool = False
    context: bytes = b""
    """The client's own, kept with the record and given back; the keeper never looks into it."""


class Prepare(Request, frozen=True, kw_only=True, tag="prepare"):
    """Commands for this target will follow, most of them with this environment."""

    target: Target
    env: dict[str, str] = {}


class Write(Request, frozen=True, kw_only=True, tag="write"):
    exec: str
    data: bytes = b""
    offset: Position | None = None
    write_id: str | None = None
    eof: bool = False


class Signal(Request, frozen=True, kw_only=True, tag="signal"):
    exec: str
    signum: Signum
    scope: Scope = "tree"
    note: str | None = None
    """Why, for the record: it comes with the exit."""
    order: str | None = None
    """An id: what was done under it is not done again."""


class Resize(Request, frozen=True, kw_only=True, tag="resize"):
    exec: str
    rows: Extent
    cols: Extent


class List(Request, frozen=True, kw_only=True, tag="list"):
    pass


class Info(Request, frozen=True, kw_only=True, tag="info"):
    exec: str


class Wait(Request, frozen=True, kw_only=True, tag="wait"):
    exec: str
    position: Position


class Confirm(Request, frozen=True, kw_only=True, tag="confirm"):
    exec: str
    position: Position


class Forget(Request, frozen=True, kw_only=True, tag="forget"):
    exec: str


class Shutdown(Request, frozen=True, kw_only=True, tag="shutdown"):
    force: bool = False


AnyRequest = (
    Hello | Start | Prepare | Write | Signal | Resize | List | Info | Wait | Confirm | Forget | Shutdown
)  # fmt: skip


class Greeting(Struct, frozen=True, kw_only=True):
    instance: str
    version: int
    pid: int
    slots_ready: int = 0
    """An older keeper does not count them."""
    slot_hits: int = 0
    slot_misses: int = 0


class Started(Struct, frozen=True, kw_only=True):
    already: bool
    """The exec was there before: nothing was started."""
    begun_ns: int
    age_s: float | None = None
    """Since it began, by a clock that nobody sets. An older keeper does not say it."""


class Written(Struct, frozen=True, kw_only=True):
    accepted: bool
    offset: int
    """Bytes of stdin on the record."""
    reason: str | None = None
    """Why not: `gap`, `busy`, `full`, `closed`, `ended`, `no_stdin`."""


class Signalled(Struct, frozen=True, kw_only=True):
    count: int


class Grown(Struct, frozen=True, kw_only=True):
    size: int
    final: bool


class ExecInfo(Struct, frozen=True, kw_only=True):
    exec: str
    state: State
    """`exited`: the end is on the record, background processes may still write. `closed`, `lost`: final."""
    first: int
    """The first position that is still there."""
    size: int
    context: bytes
    begun_ns: int
    age_s: float | None = None
    """As in `Started`."""
    notes: tuple[str, ...]


class Done(Struct, frozen=True, kw_only=True):
    pass


class Reply(Struct, frozen=True, kw_only=True):
    id: int
    failure: Failure | None = None
    result: msgspec.Raw = msgspec.Raw(b"\xc0")


async def read_message(reader: asyncio.StreamReader) -> bytes | None:
    """The next message; None at the end. Raises ValueError for one that is too long."""
    try:
        size = int.from_bytes(await reader.readexactly(4), "big")
        if size > MAX_MESSAGE:
            raise ValueError(f"message of {size} bytes")
        return await reader.readexactly(size)
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


def framed(message: Struct) -> bytes:
    body = msgspec.msgpack.encode(message)
    return len(body).to_bytes(4, "big") + body
