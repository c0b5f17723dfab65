"""Paths as people and programs spell them, and as the sandbox sees them."""

import base64
import os

from contracts.errors import Invalid, SandboxPathDenied
from contracts.files import MAX_PATH
from contracts.spelling import Spelled, spell

Names = tuple[bytes, ...]
"""Of a path relative to the workspace; none = the workspace itself."""

MAX_NAME = 255
MAX_DEPTH = 256


def names_of(path: str, path_bytes: str | None, inside: str) -> Names:
    """Raises `Invalid` for what cannot be a path, `SandboxPathDenied` for what is not in the workspace."""
    raw = _raw(path, path_bytes)
    if not raw or b"\x00" in raw:
        raise Invalid("a path is not empty and has no NUL")
    if raw == b"~" or raw.startswith(b"~/"):
        raw = raw[2:]
    names = tuple(name for name in raw.split(b"/") if name not in (b"", b"."))
    if b".." in names:
        raise SandboxPathDenied(f"{_readable(raw)}: `..` is refused")
    if raw.startswith(b"/"):
        names = _beneath(names, raw, inside)
    check_length(names)
    return names


def _beneath(names: Names, raw: bytes, inside: str) -> Names:
    above = inside_names(inside)
    if names[: len(above)] != above:
        raise SandboxPathDenied(f"{_readable(raw)} is not in {inside}")
    return names[len(above) :]


def check_length(names: Names) -> None:
    """Raises `Invalid`."""
    if not fits(names):
        what = f"{MAX_DEPTH} names at most, of {MAX_NAME} bytes each, {MAX_PATH} in all"
        raise Invalid(f"{_readable(b'/'.join(names))}: {what}")


def fits(names: Names) -> bool:
    """Whether this can be asked for."""
    is_short = len(names) <= MAX_DEPTH and sum(map(len, names)) + len(names) - 1 <= MAX_PATH
    return is_short and all(len(name) <= MAX_NAME for name in names)


def _raw(path: str, path_bytes: str | None) -> bytes:
    try:
        return path.encode() if path_bytes is None else base64.b64decode(path_bytes, validate=True)
    except ValueError as error:
        raise Invalid(f"a path that cannot be read: {error}") from error


def inside_names(inside: str) -> Names:
    return tuple(name for name in os.fsencode(inside).split(b"/") if name)


def shown(names: Names, inside: str) -> Spelled:
    """As the sandbox sees it."""
    return spell(b"/".join([os.fsencode(inside).rstrip(b"/"), *names]))


def _readable(raw: bytes) -> str:
    return repr(spell(raw).text[:200])
