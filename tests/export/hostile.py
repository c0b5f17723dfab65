"""Files that no Cloche has written."""

import base64
import hashlib
import os
from collections.abc import Iterator, Sequence

import msgspec
from msgspec.structs import replace

from contracts.chain import Message
from contracts.exports import MOST_LINE_BYTES, End, Header, Line, Piece, encode_line, encode_message


def _file(lines: Sequence[Line | bytes]) -> bytes:
    return b"".join(_encoded(line) for line in lines)


def _encoded(line: Line | bytes) -> bytes:
    if isinstance(line, bytes):
        return line + b"\n"
    return encode_message(line) if isinstance(line, Message) else encode_line(line)


def _raw(message: Message, **changes: object) -> bytes:
    fields = {"sequence": message.sequence, "subject": message.subject, "id": message.id}
    return msgspec.json.encode(fields | {"stored_at": message.stored_at, "event": {}} | changes)


def hostile_files(good: list[Line]) -> Iterator[tuple[str, bytes]]:
    """Why each is refused, and the file."""
    header, end = good[0], good[-1]
    assert isinstance(header, Header)
    assert isinstance(end, End)
    events = [line for line in good if isinstance(line, Message)]
    pieces = [line for line in good if isinstance(line, Piece)]
    one, two = events[0], events[1]
    again = replace(header, exported_at=header.exported_at.replace(microsecond=1))

    def of(*lines: Line | bytes) -> bytes:
        return _file([again, *lines])

    yield "no header|header in its first", _file([*events, end])
    yield "not a line of an export", os.urandom(3000)
    yield "not a line of an export", b"\n\n"
    yield "no export of Cloche", b""
    yield "no export of Cloche", b"\x28\xb5\x2f\xfd packed in another way"
    yield "cut off", _file(good[:-1])
    yield "cut off", _file(good)[:-2]
    yield "after the end", _file([*good, one])
    yield "only there", of(header)
    yield "version 2", _file([replace(header, cloche_export=2)])
    yield "not a sandbox id", _file([replace(header, sandbox="../x")])
    yield "sequence 1 comes after|comes after", of(two, one)
    yield "comes after", of(one, one)
    for sequence in (0, -5, 2**60):
        yield "not a sequence", of(_raw(one, sequence=sequence))
    for subject in ("cloche.log.sb.>", "cloche.log.sb.*.a", "cloche.log.sb.a", "$JS.API.STREAM.DELETE.CLOCHE_LOG"):
        yield "subject|is not cloche.log", of(_raw(one, subject=subject))
    yield "names no sandbox", of(_raw(one, subject="cloche.log.-x.a.b"))
    yield "does not belong to sandbox", of(_raw(one, subject="cloche.log.other.command.started.e"))
    yield "does not belong to sandbox", of(_raw(one, subject="cloche.log._.dead_letter.spawner"))
    yield (
        "an event of 'other' on",
        of(one._replace(payload=one.payload.replace(b'"sandboxid":"sb"', b'"sandboxid":"other"'))),
    )
    yield "is not an id", of(_raw(one, id="a\r\nNats-Rollup: all"))
    yield "not a time", of(_raw(one, stored_at="now\r\nX: y"))
    yield "has no event", of(msgspec.json.encode({"sequence": 1, "subject": one.subject, "stored_at": one.stored_at}))
    yield "more than a message may have", of(_raw(one, event={"a": "x" * (1024 * 1024 + 10)}))
    yield "is longer than", of(b"{" + b" " * (MOST_LINE_BYTES + 10))
    yield "events and", of(*events, *pieces, replace(end, events=end.events + 1))
    yield "no sandbox in it", of(replace(end, events=0, blobs=0))
    yield "an event after the contents", of(one, pieces[0], two)
    yield "does not follow", of(one, replace(pieces[0], offset=7))
    yield "not what its name says", of(one, replace(pieces[0], data_base64=b"another"), end)
    yield "a content is not whole", of(one, replace(pieces[0], last=False), replace(end, events=1, blobs=0))
    yield "not the name of a content", of(one, replace(pieces[0], blob="../../etc/passwd"))
    large = os.urandom(256 * 1024)
    name = hashlib.sha256(large * 4).hexdigest()
    parts = [Piece(blob=name, offset=at * len(large), data_base64=large, last=at == 4) for at in range(5)]
    yield "hashes to", of(one, *parts, replace(end, events=1, blobs=1))
    yield "not a line of an export", of(b'{"blob":"%b","offset":0,"data_base64":"*","last":true}' % name.encode())
    yield (
        "larger than",
        of(one, msgspec.json.encode({"blob": name, "offset": 0, "data_base64": base64.b64encode(large * 2)})),
    )
