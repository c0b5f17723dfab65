"""Which part of a divided log a sandbox belongs to. For ever: nothing of it is ever anywhere else."""

from typing import Any

import msgspec

from contracts.errors import Invalid
from contracts.ids import SandboxId

MOST = 64
_OFFSET_BASIS = 0x811C9DC5
_PRIME = 0x01000193


def partition_of(sandbox: SandboxId, partitions: int) -> int:
    """FNV-1a with 32 bits of its id, modulo `partitions`: the same in every language and every version."""
    value = _OFFSET_BASIS
    for byte in sandbox.encode(errors="replace"):
        value = (value ^ byte) * _PRIME & 0xFFFFFFFF
    return value % partitions


def realm_of(tenant: str, partition: int) -> str:
    """What the realm of one partition is called."""
    return f"{tenant}-p{partition}" if tenant else f"p{partition}"


def require_same(origin: SandboxId, sandbox: SandboxId, partitions: int) -> None:
    """Raises `Invalid` where one cannot begin as the other was: a partition has its own log and its own contents."""
    if partition_of(origin, partitions) != partition_of(sandbox, partitions):
        raise Invalid(
            f"{sandbox!r} would be in another partition than {origin!r}, whose files it is to begin with:"
            " leave the id out, and one that fits is chosen"
        )


def origin_in(spec: bytes) -> SandboxId | None:
    """The sandbox that one with this specification begins as. What is no specification has none."""
    try:
        source: Any = msgspec.json.decode(spec)["workspace"]["source"]
        return str(source["sandbox"]) if source["kind"] == "fork" else None
    except (msgspec.DecodeError, KeyError, TypeError):
        return None
