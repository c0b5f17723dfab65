"""The keys that tokens are signed and checked with."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from contracts.errors import Invalid
from infra.audit.keys import Keys
from infra.settings import Settings

SHORTEST_SECRET = 32


class Checked(NamedTuple):
    """What a token may be signed with."""

    public: tuple[Ed25519PublicKey, ...]
    secret: bytes | None


def own_key(settings: Settings) -> Ed25519PrivateKey:
    """The node's, made at its first use, and the same for all who ask at once. Raises `Invalid`, OSError."""
    place = settings.data / "gateway"
    place.mkdir(parents=True, exist_ok=True, mode=0o700)
    keys = Keys(place)
    return keys.current() or _first(keys, place)


def _first(keys: Keys, place: Path) -> Ed25519PrivateKey:
    with _alone(place):
        return keys.current() or keys.make()


@contextmanager
def _alone(place: Path) -> Iterator[None]:
    lock = os.open(place / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def checked(settings: Settings) -> Checked:
    """Raises `Invalid` naming the file that holds no key."""
    ours = own_key(settings).public_key()
    others = tuple(_public(path) for path in settings.gateway.public_keys)
    return Checked((ours, *others), shared_secret(settings))


def shared_secret(settings: Settings) -> bytes | None:
    """None where the settings name none. Raises `Invalid` for a file that holds none, or a short one."""
    path = settings.gateway.shared_secret
    if path is None:
        return None
    try:
        secret = path.read_bytes().strip()
    except OSError as error:
        raise Invalid(f"gateway.shared_secret: {error}") from error
    if len(secret) < SHORTEST_SECRET:
        raise Invalid(f"gateway.shared_secret: {path} has fewer than {SHORTEST_SECRET} bytes")
    return secret


def _public(path: Path) -> Ed25519PublicKey:
    try:
        key = load_pem_public_key(path.read_bytes())
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise Invalid(f"gateway.public_keys: {path} holds no public key: {error}") from error
    if not isinstance(key, Ed25519PublicKey):
        raise Invalid(f"gateway.public_keys: {path} holds a key of another kind: it must be Ed25519")
    return key
