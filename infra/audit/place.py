"""Where the audit keeps what must not be in the store that it is to prove."""

import re
import secrets
from pathlib import Path

from contracts.errors import Invalid
from infra.durable import write_atomically

NAME = "log"
OLDEST = "oldest"
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def directory(data: Path) -> Path:
    return data / "audit"


def prepare(data: Path) -> Path:
    """The directory, for its owner only. Raises OSError."""
    place = directory(data)
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    place.chmod(0o700)
    return place


def log_name(place: Path) -> str | None:
    """The name that the log was given; None where there is none that can be read. Raises OSError."""
    try:
        text = (place / NAME).read_text(errors="replace").strip()
    except FileNotFoundError:
        return None
    return text if _NAME.fullmatch(text) else None


def new_name() -> str:
    return secrets.token_hex(16)


def keep_name(place: Path, name: str) -> None:
    """Raises `Invalid` for what is no name, OSError."""
    if not _NAME.fullmatch(name):
        raise Invalid(f"{name[:80]!r} is no name of a log")
    write_atomically(place / NAME, f"{name}\n".encode())


def oldest(place: Path) -> int | None:
    """The first sequence that the log had when it was last looked at; None for never. Raises OSError."""
    try:
        text = (place / OLDEST).read_text(errors="replace").strip()
    except FileNotFoundError:
        return None
    return int(text) if text.isdecimal() else None


def keep_oldest(place: Path, sequence: int) -> None:
    """Raises OSError."""
    write_atomically(place / OLDEST, f"{sequence}\n".encode())
