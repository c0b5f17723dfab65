"""The file of a backup: a tar, each member of which is hashed, and which ends with all the hashes."""

import hashlib
import io
import os
import secrets
import tarfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, NamedTuple, Self

import msgspec

from contracts.errors import Invalid
from infra.backup.contents import SUMS, Sum
from infra.durable import sync_directory

PRIVATE = 0o600
BLOCK = 1024 * 1024


class Member(NamedTuple):
    name: str
    size: int
    content: IO[bytes]
    """To be read before the next one is asked for."""


class Writer:
    """Under another name until it is whole. Raises `Invalid` where the file exists, OSError where the disk refuses."""

    def __init__(self, path: Path) -> None:
        if path.exists():
            raise Invalid(f"{path} exists: a backup is never written over")
        self._path = path
        # Nobody else may have made it before: what is in it is secret.
        self._draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
        self._fd = os.open(self._draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE)
        self._file = os.fdopen(self._fd, "wb")
        self._tar = tarfile.open(fileobj=self._file, mode="w:")  # noqa: SIM115  closed by the exit
        self._sums: list[Sum] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        try:
            if kind is None:
                self._finish()
        finally:
            self._file.close()
            self._draft.unlink(missing_ok=True)

    def add(self, name: str, content: bytes) -> None:
        """Raises OSError."""
        self._sums.append(Sum(name=name, size=len(content), sha256=hashlib.sha256(content).hexdigest()))
        self._add(name, content)

    def _add(self, name: str, content: bytes) -> None:
        member = tarfile.TarInfo(name)
        member.size = len(content)
        member.mode = PRIVATE
        self._tar.addfile(member, io.BytesIO(content))

    def _finish(self) -> None:
        self._add(SUMS, msgspec.json.encode(self._sums))
        self._tar.close()
        self._file.flush()
        os.fsync(self._fd)
        try:
            os.link(self._draft, self._path)
        except FileExistsError:
            raise Invalid(f"{self._path} exists: a backup is never written over") from None
        sync_directory(self._path.parent)


def members(path: Path) -> Iterator[Member]:
    """In their order, without the sums. Raises `Invalid` naming the place where it cannot be read, OSError."""
    with path.open("rb") as file:
        try:
            with tarfile.open(fileobj=file, mode="r:") as tar:
                for info in tar:
                    content = tar.extractfile(info) if _is_plain(info) else None
                    if content is None:
                        raise Invalid(f"{path}: {info.name[:200]!r}, at byte {info.offset}, is no part of a backup")
                    if info.name != SUMS:
                        yield Member(info.name, info.size, content)
        except (tarfile.TarError, EOFError) as error:
            raise Invalid(f"{path}: cannot be read behind byte {file.tell()}: {error}") from error


def _is_plain(info: tarfile.TarInfo) -> bool:
    """As large as it says: a sparse one could be of any size in a small file."""
    return info.isreg() and not info.issparse()


def check(path: Path) -> list[Sum]:
    """Every member, hashed and found to be as it was written, in their order.

    Raises `Invalid` naming the first place that is damaged, OSError.
    """
    expected = _sums(path)
    found: list[Sum] = []
    for member in members(path):
        number = len(found)
        if number == len(expected) or expected[number].name != member.name:
            raise Invalid(f"{path}: {member.name[:200]!r} was not written there: it is damaged")
        if member.size != expected[number].size or _hash(member.content) != expected[number].sha256:
            raise Invalid(f"{path}: {member.name!r} is damaged: it is not what was written")
        found.append(expected[number])
    if len(found) < len(expected):
        raise Invalid(f"{path}: it is damaged at {expected[len(found)].name!r}, which cannot be found")
    return found


def _sums(path: Path) -> list[Sum]:
    last = "the beginning"
    end = 0
    with path.open("rb") as file:
        try:
            with tarfile.open(fileobj=file, mode="r:") as tar:
                for info in tar:
                    if info.name == SUMS and _is_plain(info) and (content := tar.extractfile(info)) is not None:
                        return msgspec.json.decode(content.read(), type=list[Sum])
                    last, end = repr(info.name), tar.offset
        except (tarfile.TarError, EOFError) as error:
            raise Invalid(f"{path}: damaged behind {last}, at byte {end}: {error}") from error
        except msgspec.MsgspecError as error:
            raise Invalid(f"{path}: {SUMS!r} is damaged: {error}") from error
    raise Invalid(f"{path}: damaged, or cut off, behind {last}, at byte {end}")


def _hash(content: IO[bytes]) -> str:
    digest = hashlib.sha256()
    while block := content.read(BLOCK):
        digest.update(block)
    return digest.hexdigest()
