"""The file of a backup: a tar, each member of which is hashed, and which ends with all the hashes."""

import hashlib
import io
import os
import secrets
import tarfile
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, NamedTuple, Self

import msgspec

from contracts.errors import Invalid
from infra.audit.signing import verify
from infra.backup.contents import SIGNATURE, SUMS, Signature, Sum
from infra.durable import sync_directory

PRIVATE = 0o600
BLOCK = 1024 * 1024
MOST_SIGNATURE = 4096
MOST_SUMS = 64 * 1024 * 1024
"""Of a store of three terabytes."""


class Content:
    """Of one member, as much as it says and no more. To be read before the next one is asked for."""

    def __init__(self, file: IO[bytes], begin: int, size: int) -> None:
        self._file = file
        self._at = begin
        self._end = begin + size

    def read(self, most: int = -1) -> bytes:
        left = self._end - self._at
        self._file.seek(self._at)
        block = self._file.read(left if most < 0 else min(most, left))
        self._at += len(block)
        return block

    def whole(self, most: int) -> bytes:
        """Raises `Invalid` for one that is larger than anybody needs."""
        if self._end - self._at > most:
            raise Invalid(f"a part of the backup has {self._end - self._at} bytes, and {most} are the most that it may")
        return self.read()


class Member(NamedTuple):
    name: str
    size: int
    content: Content


Sign = Callable[[bytes], Signature]


def statement(sums: bytes) -> bytes:
    """What is signed. Nothing else that the key signs begins like it."""
    return b"cloche backup\n" + hashlib.sha256(sums).digest()


class Writer:
    """Under another name until it is whole. Raises `Invalid` where the file exists, OSError where the disk refuses."""

    def __init__(self, path: Path, sign: Sign | None = None) -> None:
        if path.exists():
            raise Invalid(f"{path} exists: a backup is never written over")
        self._path = path
        self._sign = sign
        # Nobody else may have made it before: what is in it is secret.
        self._draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
        self._fd = os.open(self._draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE)
        self._file = os.fdopen(self._fd, "wb")
        self._tar = tarfile.open(fileobj=self._file, mode="w:", format=tarfile.USTAR_FORMAT)  # noqa: SIM115  closed by the exit
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
        sums = msgspec.json.encode(self._sums)
        self._add(SUMS, sums)
        if self._sign is not None:
            self._add(SIGNATURE, msgspec.json.encode(self._sign(statement(sums))))
        self._tar.close()
        self._file.flush()
        os.fsync(self._fd)
        try:
            os.link(self._draft, self._path)
        except FileExistsError:
            raise Invalid(f"{self._path} exists: a backup is never written over") from None
        sync_directory(self._path.parent)


def members(path: Path) -> Generator[Member]:
    """In their order, without the sums. Raises `Invalid` naming the place where it cannot be read, OSError."""
    with path.open("rb") as file:
        for member in _walk(path, file):
            if member.name == SUMS:
                return
            yield member


def _walk(path: Path, file: IO[bytes]) -> Iterator[Member]:
    """Plain files alone, as they are written here: links, holes and long headers of other programs are refused.

    One header is held at a time, however many there are and whatever they say.
    """
    last, at, size = "the beginning", 0, os.fstat(file.fileno()).st_size
    while True:
        file.seek(at)
        header = file.read(tarfile.BLOCKSIZE)
        if header == bytes(tarfile.BLOCKSIZE):
            return
        try:
            info = tarfile.TarInfo.frombuf(header, "utf-8", "surrogateescape")
        except tarfile.HeaderError as error:
            raise Invalid(f"{path}: damaged, or cut off, behind {last}, at byte {at}: {error}") from error
        if info.type != tarfile.REGTYPE or info.size < 0:
            raise Invalid(f"{path}: {info.name[:200]!r}, at byte {at}, is no part of a backup")
        begin = at + tarfile.BLOCKSIZE
        if begin + info.size > size:
            raise Invalid(f"{path}: cut off in {info.name[:200]!r}, behind {last}, at byte {at}")
        yield Member(info.name, info.size, Content(file, begin, info.size))
        last, at = repr(info.name[:200]), begin + -(-info.size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE


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
        raise Invalid(f"{path}: it is damaged at {expected[len(found)].name[:200]!r}, which cannot be found")
    return found


def _sums(path: Path) -> list[Sum]:
    with path.open("rb") as file:
        for member in _walk(path, file):
            if member.name == SUMS:
                try:
                    return msgspec.json.decode(member.content.whole(MOST_SUMS), type=list[Sum])
                except msgspec.MsgspecError as error:
                    raise Invalid(f"{path}: {SUMS!r} is damaged: {error}") from error
    raise Invalid(f"{path}: damaged, or cut off: it has no {SUMS!r}")


def signer(path: Path) -> str | None:
    """Whose key signed it; None where nobody's did. Raises `Invalid` for a signature that is wrong, OSError."""
    sums, found = b"", None
    with path.open("rb") as file:
        for member in _walk(path, file):
            if member.name == SUMS:
                sums = member.content.whole(MOST_SUMS)
            elif sums:
                found = member
                break
        if found is None:
            return None
        signature = _signature(path, found)
    if not verify(signature.key, statement(sums), signature.signature):
        raise Invalid(f"{path}: its signature is wrong: it is not what {signature.key[:16]!r} signed")
    return signature.key


def _signature(path: Path, member: Member) -> Signature:
    if member.name != SIGNATURE:
        raise Invalid(f"{path}: {member.name[:200]!r} is no part of a backup")
    try:
        return msgspec.json.decode(member.content.whole(MOST_SIGNATURE), type=Signature)
    except msgspec.MsgspecError as error:
        raise Invalid(f"{path}: {SIGNATURE!r} is damaged: {error}") from error


def _hash(content: Content) -> str:
    digest = hashlib.sha256()
    while block := content.read(BLOCK):
        digest.update(block)
    return digest.hexdigest()
