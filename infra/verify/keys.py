"""Public keys, as people pass them on: in hexadecimal, or as a file."""

import re
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from contracts.errors import Invalid

MOST_BYTES = 1024 * 1024
_KEY = re.compile(r"[0-9a-fA-F]{64}")
_WORD = re.compile(r"(?<![0-9a-fA-F])[0-9a-fA-F]{64}(?![0-9a-fA-F])")
_PEM = b"-----BEGIN PUBLIC KEY-----"


def read(given: str) -> list[str]:
    """The keys that somebody names: one in hexadecimal, or a file with any number of such, or one in PEM.

    Raises `Invalid` for what is neither.
    """
    if _KEY.fullmatch(given):
        return [given.lower()]
    try:
        with Path(given).open("rb") as file:
            content = file.read(MOST_BYTES)
    except OSError as error:
        raise Invalid(f"{given[:200]!r} is no key (64 hexadecimal digits) and no file: {error.strerror}") from error
    keys = [_of_pem(given, content)] if _PEM in content else _of_text(content)
    if not keys:
        raise Invalid(f"no key in {given}: it has neither 64 hexadecimal digits in a row nor a public key in PEM")
    return keys


def _of_text(content: bytes) -> list[str]:
    return [found.lower() for found in _WORD.findall(content.decode("utf-8", "replace"))]


def _of_pem(name: str, content: bytes) -> str:
    try:
        key = load_pem_public_key(content)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise Invalid(f"{name} holds no public key: {error}") from error
    if not isinstance(key, Ed25519PublicKey):
        raise Invalid(f"the key in {name} is of another kind: Ed25519 is what signs a log")
    return key.public_bytes_raw().hex()
