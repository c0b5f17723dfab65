"""Paths of a sandbox as a program here has them."""

from contracts.errors import Invalid
from contracts.files import MAX_PATH
from contracts.spelling import Spelled, spell

SandboxPath = str | bytes
"""Text, as `os.fsdecode` gives it for a name that is not UTF-8, or the bytes themselves."""


def spelled(path: SandboxPath) -> Spelled:
    """As it is asked for. Raises `Invalid` for nothing, NUL, and text that no bytes stand for."""
    if not path or ("\0" in path if isinstance(path, str) else b"\0" in path):
        raise Invalid("a path is not empty and has no NUL")
    try:
        text, encoded = spell(path.encode("utf-8", "surrogateescape") if isinstance(path, str) else path)
    except UnicodeEncodeError as error:
        raise Invalid(f"{path[:80]!r} cannot be a path: {error.reason}") from error
    return Spelled(text, None) if encoded is None else Spelled(text[:MAX_PATH], encoded)
