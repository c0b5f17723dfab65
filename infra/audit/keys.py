"""The key that signs this log, and the log's own name, as files of one directory that only their owner enters."""

import secrets
from collections.abc import Container
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from contracts.errors import Invalid
from infra.audit.signing import public_of
from infra.durable import sync_directory, write_atomically

KEY = "key.pem"
NEXT = "next.pem"


class Keys:
    """Every change is a rename: after a crash there is the old key, or the new one, or both."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def current(self) -> Ed25519PrivateKey | None:
        """None where there is none. Raises `Invalid` for a file that holds no key of ours, OSError."""
        return _read(self._directory / KEY)

    def waiting(self) -> Ed25519PrivateKey | None:
        """The key of a rotation that was begun, and that nobody signs with yet. Raises what `current` raises."""
        return _read(self._directory / NEXT)

    def holding(self, public: str) -> Ed25519PrivateKey | None:
        """The one that others know by that, whichever file it is in. Raises OSError."""
        found = (_readable(self._directory / name) for name in (KEY, NEXT))
        return next((key for key in found if key is not None and public_of(key) == public), None)

    def prepare(self, used: Container[str] = ()) -> Ed25519PrivateKey:
        """The key for the next rotation: the one that is waiting, or a new one where that was used. Raises OSError."""
        waiting = _readable(self._directory / NEXT)
        if waiting is not None and public_of(waiting) not in used:
            return waiting
        key = Ed25519PrivateKey.generate()
        write_atomically(self._directory / NEXT, _pem(key))
        return key

    def promote(self) -> None:
        """The waiting key signs from now on, and the one before it is gone. Raises OSError."""
        (self._directory / NEXT).replace(self._directory / KEY)
        sync_directory(self._directory)

    def set_aside(self) -> Path:
        """Out of the way with a file that cannot be read; returns its new name. Raises OSError."""
        kept = self._directory / f"{KEY}.unreadable-{secrets.token_hex(4)}"
        (self._directory / KEY).replace(kept)
        return kept

    def make(self) -> Ed25519PrivateKey:
        """The first key. Raises OSError."""
        key = Ed25519PrivateKey.generate()
        write_atomically(self._directory / KEY, _pem(key))
        return key


def _pem(key: Ed25519PrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _readable(path: Path) -> Ed25519PrivateKey | None:
    try:
        return _read(path)
    except Invalid:
        return None


def _read(path: Path) -> Ed25519PrivateKey | None:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    try:
        key = load_pem_private_key(content, None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise Invalid(f"{path} holds no private key: {error}") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise Invalid(f"{path} holds a key of another kind")
    return key
