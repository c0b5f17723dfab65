"""Golden histories: sessions as the log had them, and what they fold to, for ever.

`histories/<name>.jsonl` has one `{"sequence","event"}` a line; `<name>.folded.json` beside it what it all folds to. A
field that is added to a fold later is not in the older files, and need not be; whatever is in them must stay as it is.
A map has the keys that events have named, neither fewer nor more: what is left over in one is a fault of the fold.
`python -m tests.replay.record_histories DIRECTORY` records new ones.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from contracts import codec, folding
from contracts.folding import Folded

HISTORIES = Path(__file__).parent / "histories"


class Line(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    sequence: int
    event: msgspec.Raw


def history(path: Path) -> Iterator[Line]:
    for line in path.read_bytes().splitlines():
        yield msgspec.json.decode(line, type=Line)


def fold(path: Path) -> Folded:
    folded: Folded | None = None
    for line in history(path):
        folded = folding.apply(folded, line.sequence, codec.decode_head(bytes(line.event)))
    assert folded is not None
    return folded


def expected_path(path: Path) -> Path:
    return path.with_suffix(".folded.json")


def check(path: Path, expected: Path) -> None:
    """Raises `AssertionError` with the first place where a history does not fold to what it did."""
    compare(msgspec.json.decode(expected.read_bytes()), fold(path), path.stem)


def compare(old: Any, new: Any, where: str) -> None:
    """What was read from JSON with what is folded: there a Struct is not yet taken for a map."""
    match old, new:
        case dict(), Struct():
            _fields(old, new, where)
        case dict(), dict():
            assert old.keys() == new.keys(), f"{where}: {sorted(new)} instead of {sorted(old)}"
            for key, value in old.items():
                compare(value, new[key], f"{where}.{key}")
        case list(), tuple():
            assert len(old) == len(new), f"{where}: {len(new)} instead of {len(old)}"
            for number, pair in enumerate(zip(old, new, strict=True)):
                compare(*pair, f"{where}[{number}]")
        case _:
            told = msgspec.json.decode(codec.encode(new))
            assert old == told, f"{where}: {told!r} instead of {old!r}"


def _fields(old: dict[str, Any], new: Struct, where: str) -> None:
    config = new.__struct_config__
    names = dict(zip(new.__struct_encode_fields__, new.__struct_fields__, strict=True))
    for key, value in old.items():
        if key == config.tag_field:
            assert value == config.tag, f"{where}.{key}: {config.tag!r} instead of {value!r}"
            continue
        assert key in names, f"{where}.{key} is gone"
        compare(value, getattr(new, names[key]), f"{where}.{key}")


def keep(path: Path) -> None:
    """What it folds to today is what it has to fold to from now on."""
    folded = codec.encode(fold(path))
    expected_path(path).write_bytes(msgspec.json.format(folded, indent=1) + b"\n")
