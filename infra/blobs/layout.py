"""How a blob lies in its bucket: as an object of a NATS object store, so that any client's object store reads it.

An object is its chunks, in order, on a subject of their own, and one message that names them. That one is written
last and is what makes the object exist; chunks that nothing names are left over from a writer that died.
"""

import base64
import re

from msgspec import Struct

from contracts.codec import decode, encode
from contracts.errors import Invalid
from contracts.streams import BLOBS_BUCKET
from infra import ids

STREAM = f"OBJ_{BLOBS_BUCKET}"
CHUNK_BYTES = 512 * 1024
_CHUNKS = f"$O.{BLOBS_BUCKET}.C."
_OBJECTS = f"$O.{BLOBS_BUCKET}.M."
ALL_CHUNKS = f"{_CHUNKS}>"
ALL_OBJECTS = f"{_OBJECTS}>"

_NAME = re.compile(r"[0-9a-f]{64}\Z")
_DIGEST = "SHA-256="


class Options(Struct, frozen=True, kw_only=True):
    max_chunk_size: int = CHUNK_BYTES


class ObjectInfo(Struct, frozen=True, kw_only=True):
    """As object stores write it. `name` is the content's sha256 in hexadecimal."""

    name: str
    bucket: str
    nuid: str
    """Where the chunks are: chosen by each attempt to write, so that no two attempts mix."""
    size: int
    chunks: int
    digest: str
    mtime: str = "0001-01-01T00:00:00Z"
    """Unset, as other clients write it: the time that counts is when the server stored it."""
    options: Options = Options()


def new_nuid() -> str:
    return ids.new_id("blob")


def object_info(sha256: str, nuid: str, size: int, chunks: int) -> ObjectInfo:
    digest = _DIGEST + base64.urlsafe_b64encode(bytes.fromhex(sha256)).decode()
    return ObjectInfo(name=sha256, bucket=BLOBS_BUCKET, nuid=nuid, size=size, chunks=chunks, digest=digest)


def encode_info(info: ObjectInfo) -> bytes:
    return encode(info)


def decode_info(raw: bytes) -> ObjectInfo:
    """Raises `Invalid`."""
    info: ObjectInfo = decode(raw, ObjectInfo)
    return info


def is_name(text: str) -> bool:
    """Whether it is a sha256 in lower-case hexadecimal."""
    return _NAME.match(text) is not None


def check_name(sha256: str) -> str:
    """Raises `Invalid` for what is not the name of a blob."""
    if not is_name(sha256):
        raise Invalid(f"{sha256[:80]!r} is not the name of a blob: a sha256 in hexadecimal")
    return sha256


def object_subject(sha256: str) -> str:
    """Raises `Invalid`."""
    return _OBJECTS + base64.urlsafe_b64encode(check_name(sha256).encode()).decode()


def chunks_subject(nuid: str) -> str:
    return _CHUNKS + nuid


def nuid_of(subject: str) -> str:
    return subject.removeprefix(_CHUNKS)


def cut(data: bytes) -> list[bytes]:
    return [data[at : at + CHUNK_BYTES] for at in range(0, len(data), CHUNK_BYTES)]
