"""Ed25519 over what `contracts.chain` says is signed. Keys and signatures are hexadecimal wherever they are written."""

import re

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

_KEY = re.compile(r"[0-9a-f]{64}\Z")


def sign(key: Ed25519PrivateKey, statement: bytes) -> str:
    """The signature, in hexadecimal."""
    return key.sign(statement).hex()


def public_of(key: Ed25519PrivateKey) -> str:
    """What others know the key by."""
    return key.public_key().public_bytes_raw().hex()


def verify(public: str, statement: bytes, signature: str) -> bool:
    """Whether the owner of the key said so. False for anything that is no key or no signature.

    Each key has one spelling, as `public_of` has it: what is known of it is known by that.
    """
    if not _KEY.match(public):
        return False
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(public)).verify(bytes.fromhex(signature), statement)
    except (ValueError, InvalidSignature):
        return False
    return True
