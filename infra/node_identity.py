"""Which host this is: made once in its data directory, and the same for ever."""

import contextlib
import re
import secrets
from pathlib import Path

from contracts.errors import Invalid, Unavailable
from infra.durable import sync_directory, write_durably

DIGITS = 32


def identity_file(data: Path) -> Path:
    """In a directory of its own, so that a container can be given this and nothing else of the node's data."""
    return data / "identity" / "node"


def read_identity(data: Path) -> str:
    """Empty where none has been made yet. Raises `Invalid` for a file that has something else in it, `Unavailable`."""
    file = identity_file(data)
    try:
        found = file.read_bytes().decode(errors="replace").strip()
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise Unavailable(f"{file}: {error.strerror}") from error
    if not re.fullmatch(rf"[0-9a-f]{{{DIGITS}}}", found):
        raise Invalid(f"{file} is damaged, it has no identity in it: remove it, and the host is a new one")
    return found


def make_identity(data: Path) -> str:
    """Made once and the same for ever, whoever else makes it at this moment. Raises `Invalid`, `Unavailable`."""
    if found := read_identity(data):
        return found
    file = identity_file(data)
    draft = file.with_name(f".{secrets.token_hex(4)}")
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_durably(draft, f"{secrets.token_hex(DIGITS // 2)}\n".encode())
        with contextlib.suppress(FileExistsError):
            file.hardlink_to(draft)
        draft.unlink()
        sync_directory(file.parent)
        sync_directory(data)
    except OSError as error:
        raise Unavailable(f"{file}: {error.strerror}") from error
    return read_identity(data)
