"""What of a data directory belongs to a backup: what cannot be made again from the log."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from contracts.errors import Invalid
from infra.audit import keys, place
from infra.configuration import CONFIG_FILE
from infra.durable import sync_directory
from infra.secrets import store as vault
from infra.settings import Settings

AUDIT, PASSWORDS, VAULT, GATEWAY = "audit", "secrets", "vault", "gateway"
DIRECTORIES = (AUDIT, PASSWORDS, VAULT, GATEWAY)
PIECE_BYTES = 8 * 1024 * 1024
FRESH = ".new"
"""What a crash left half written ends so."""


class Piece(NamedTuple):
    name: str
    """Its path in the backup. A large file comes as several, one after the other."""
    content: bytes


def read(settings: Settings) -> Iterator[Piece]:
    """One file after the other. What vanishes meanwhile was of the moment. Raises OSError.

    Passwords and settings belong to who runs the server: those of a server elsewhere are not ours to take.
    """
    for directory in DIRECTORIES:
        if directory == PASSWORDS and settings.url is not None:
            continue
        root = place_of(settings, directory)
        for path in sorted(_files(root)):
            yield from _pieces(f"{directory}/{path.relative_to(root).as_posix()}", path)
    if settings.url is None:
        yield from _pieces(CONFIG_FILE, settings.data / CONFIG_FILE)


def signing_key(settings: Settings) -> bytes:
    """Empty where there is none. Raises OSError."""
    return b"".join(piece.content for piece in _pieces("", place_of(settings, AUDIT) / keys.KEY))


def place_of(settings: Settings, directory: str) -> Path:
    """Where it is here: some may be elsewhere, by the settings."""
    if directory == AUDIT:
        return place.directory(settings.data)
    if directory == PASSWORDS and settings.credentials is not None:
        return settings.credentials
    return vault.directory_of(settings) if directory == VAULT else settings.data / directory


def destination(settings: Settings, name: str) -> Path:
    """Raises `Invalid` for a name that no backup of ours has: nothing is ever written elsewhere."""
    path = check_name(name)
    if name == CONFIG_FILE:
        return settings.data / CONFIG_FILE
    return place_of(settings, path.parts[0]).joinpath(*path.parts[1:])


def check_name(name: str) -> PurePosixPath:
    """Raises `Invalid` for a name that no backup of ours has."""
    path = PurePosixPath(name)
    plain = str(path) == name and name.isprintable() and ".." not in path.parts
    if not plain or (name != CONFIG_FILE and (len(path.parts) < 2 or path.parts[0] not in DIRECTORIES)):
        raise Invalid(f"{name[:200]!r} does not belong into a data directory")
    return path


def draft_of(path: Path) -> Path:
    """Its name until it is whole: what is there by its own name stays, so half of one must not be."""
    return path.with_name(path.name + FRESH)


def append(path: Path, content: bytes) -> None:
    """For its owner only. Raises OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(fd)
    sync_directory(path.parent)


def _files(root: Path) -> Iterator[Path]:
    """A directory; where the settings name a single file, that is the business of whoever made it."""
    for directory, _, names in os.walk(root):
        yield from (Path(directory) / name for name in names if not name.endswith(FRESH))


def _pieces(name: str, path: Path) -> Iterator[Piece]:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        return
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return
        content = file.read(PIECE_BYTES)
        yield Piece(name, content)
        while content := file.read(PIECE_BYTES):
            yield Piece(name, content)
