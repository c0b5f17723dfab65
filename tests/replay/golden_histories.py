"""Golden histories: sessions as the log had them, and what they fold to, for ever.

`histories/<name>.jsonl` has one `{"sequence","event"}` a line; `<name>.folded.json` beside it what it all folds to. A
field that is added to a fold later is not in the older files, and need not be; whatever is in them must stay as it is.
`python -m tests.replay.record_histories DIRECTORY` records new ones.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from contracts import codec, folding
from contracts.folding import Folded

HISTORIES = Path(__file__).parent / "histories"


class Line(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
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
    compare(msgspec.json.decode(expected.read_bytes()), msgspec.json.decode(codec.encode(fold(path))), path.stem)


def compare(old: Any, new: Any, where: str) -> None:
    if isinstance(old, dict) and isinstance(new, dict):
        for key, value in old.items():
            assert key in new, f"{where}.{key} is gone"
            compare(value, new[key], f"{where}.{key}")
    elif isinstance(old, list) and isinstance(new, list):
        assert len(old) == len(new), f"{where}: {len(new)} instead of {len(old)}"
        for number, pair in enumerate(zip(old, new, strict=True)):
            compare(*pair, f"{where}[{number}]")
    else:
        assert old == new, f"{where}: {new!r} instead of {old!r}"


def keep(path: Path) -> None:
    """What it folds to today is what it has to fold to from now on."""
    folded = codec.encode(fold(path))
    expected_path(path).write_bytes(msgspec.json.format(folded, indent=1) + b"\n")
