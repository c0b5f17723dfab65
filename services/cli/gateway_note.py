"""Where the gateway of a node is, and the token of this start, for whoever may read the data directory."""

import os
from pathlib import Path
from urllib.parse import urlencode

import msgspec
from msgspec import Struct

from services.cli.running import find


class GatewayNote(Struct, frozen=True, kw_only=True):
    address: str
    token: str | None = None
    """Good until the node ends. None = it can be reached from elsewhere, and only real tokens count."""
    instead_of: int | None = None
    """The port that was wanted, where somebody else had it."""
    node: int
    """The process that holds the socket."""

    @property
    def entrance(self) -> str:
        """The address that lets a browser in."""
        return self.address if self.token is None else with_token(self.address, self.token)


def with_token(address: str, token: str) -> str:
    return f"{address}/?{urlencode({'token': token})}"


def note_file(data: Path) -> Path:
    return data / "run" / "gateway.json"


def write_note(data: Path, note: GatewayNote) -> None:
    """Readable by its owner only."""
    draft = note_file(data).with_suffix(".draft")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(msgspec.json.encode(note))
    draft.replace(note_file(data))


def find_gateway(data: Path) -> GatewayNote | None:
    """None where no node is up, or it has no gateway."""
    running = find(data)
    try:
        note = msgspec.json.decode(note_file(data).read_bytes(), type=GatewayNote)
    except (OSError, msgspec.MsgspecError):
        return None
    return note if running is not None and running.pid == note.node else None
