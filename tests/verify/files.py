"""Exports of logs that are made by hand, as files."""

import datetime
import gzip
import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from contracts import exports, manifest
from contracts.chain import Message
from contracts.events.file import EntryKind, FileCreated, FileFacts, FileManifest
from contracts.exports import End, Header, Piece
from contracts.verifying import Trust, Verdict
from infra.verify.export import verify_export
from tests.verify.logs import LOG, NOBODY, Found, Log

EXPORTED_AT = datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def created(path: str, data: bytes) -> FileCreated:
    return FileCreated(path=path, facts=FileFacts(size=len(data), mode=0o644, sha256=sha256(data), blob=sha256(data)))


def manifest_of(files: Mapping[str, bytes]) -> bytes:
    tree = {
        path.encode(): manifest.Entry(path=path, kind=EntryKind.FILE, size=len(data), mode=0o644, blob=sha256(data))
        for path, data in files.items()
    }
    return b"".join(manifest.lines(tree, "/w"))


def with_files() -> tuple[Log, list[bytes]]:
    """Sequence 1 names a content, 2 a list with two more, 3 the first again; 4 is the checkpoint."""
    one, two, three = b"one" * 200_000, b"two", b""
    listed = manifest_of({"two": two, "three": three})
    log = Log()
    log.fact("a", created("/w/one", one))
    log.fact("a", FileManifest(manifest=sha256(listed), files=2, bytes=len(two)))
    log.fact("a", created("/w/again", one))
    log.checkpoint()
    return log, [two, listed, one, three]


def pieces(data: bytes, *, name: str | None = None) -> list[bytes]:
    starts = range(0, len(data), exports.PIECE_BYTES) or [0]
    return [
        exports.encode_line(
            Piece(
                blob=name or sha256(data),
                offset=at,
                data_base64=data[at : at + exports.PIECE_BYTES],
                last=at + exports.PIECE_BYTES >= len(data),
            )
        )
        for at in starts
    ]


def lines_of(
    messages: Iterable[Message],
    blobs: Iterable[bytes] = (),
    *,
    sandbox: str | None = None,
    first: int = 1,
    last: int | None = None,
) -> list[bytes]:
    messages, blobs = list(messages), list(blobs)
    last = messages[-1].sequence if last is None else last
    header = Header(log=LOG, sandbox=sandbox, first_sequence=first, last_sequence=last, exported_at=EXPORTED_AT)
    return [
        exports.encode_line(header),
        *map(exports.encode_message, messages),
        *(line for data in blobs for line in pieces(data)),
        exports.encode_line(End(events=len(messages), blobs=len(blobs))),
    ]


def written(path: Path, lines: Iterable[bytes]) -> Path:
    content = b"".join(lines)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def verdict_on(path: Path, lines: Iterable[bytes], trust: Trust = NOBODY, *, blobs: bool = True) -> Verdict:
    return verify_export(written(path, lines), trust, lambda *_: None, blobs=blobs)


def found_in(path: Path, lines: Iterable[bytes], trust: Trust = NOBODY) -> list[Found]:
    return [Found(each.sequence, each.fault) for each in verdict_on(path, lines, trust).findings]
