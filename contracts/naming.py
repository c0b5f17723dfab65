"""Which contents a log names, where first, and how each was found."""

import re
from collections.abc import Iterator

import msgspec
from msgspec import Struct

from contracts.chain import Fault
from contracts.contents import Named
from contracts.findings import Findings

MOST_LINE_BYTES = 1024 * 1024
"""Of a list of files: a path, and what a symlink says."""
_NAME = re.compile(r"[0-9a-f]{64}\Z")


class _Entry(Struct, frozen=True):
    blob: str | None = None


_entries = msgspec.json.Decoder(_Entry)


class Names:
    """Tell it of every event that names contents, and of every content that was looked at, in any order."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._first: dict[bytes, int] = {}
        """By hash: the first sequence that names it, made negative once it is found to be right."""
        self._manifests: dict[bytes, int] = {}
        self._bad: dict[bytes, str] = {}
        self._not_named: set[bytes] = set()
        """Right, and no event that was read has named it: a list that is still to come may."""

    def __len__(self) -> int:
        return len(self._first)

    def add(self, sequence: int, named: Named) -> None:
        for name in named.contents:
            self._add(sequence, name)
        if named.manifest is not None and (manifest := self._add(sequence, named.manifest)) is not None:
            self._manifests.setdefault(manifest, sequence)

    def _add(self, sequence: int, name: str) -> bytes | None:
        if _NAME.match(name) is None:
            self._findings.add(sequence, Fault.UNREADABLE, f"names a content by {name[:80]!a}, which is no sha256")
            return None
        raw = bytes.fromhex(name)
        before = self._first.get(raw)
        if before is None:
            is_right = raw in self._not_named
            self._not_named.discard(raw)
            self._first[raw] = -sequence if is_right else sequence
        elif sequence < abs(before):
            self._first[raw] = -sequence if before < 0 else sequence
        return raw

    def is_manifest(self, name: str) -> bool:
        return bytes.fromhex(name) in self._manifests

    def manifests(self) -> list[str]:
        """In the order in which events name them."""
        return [name.hex() for name in self._manifests]

    def lines_of(self, manifest: str) -> "ManifestLines":
        return ManifestLines(self, self._manifests[bytes.fromhex(manifest)])

    def waiting(self) -> Iterator[str]:
        """Those that nobody has looked at, by their first sequence."""
        known = sorted((sequence, name) for name, sequence in self._first.items() if sequence > 0)
        return (name.hex() for _, name in known if name not in self._bad)

    def right(self, name: str) -> None:
        raw = bytes.fromhex(name)
        if raw in self._first:
            self._first[raw] = -abs(self._first[raw])
        else:
            self._not_named.add(raw)

    def wrong(self, name: str, detail: str) -> None:
        """It is there, and not what it is called."""
        self._bad[bytes.fromhex(name)] = detail

    def unreadable(self, sequence: int, detail: str) -> None:
        self._findings.add(sequence, Fault.UNREADABLE, detail)

    def close(self, *, lacking: bool = True) -> int:
        """When all were looked at. Returns how many there are. `lacking`: what is not there is told."""
        for name in self.waiting() if lacking else ():
            sequence = self._first[bytes.fromhex(name)]
            self._findings.add(sequence, Fault.BLOB_MISSING, f"names content {name}, which is not there")
        for raw, detail in self._bad.items():
            if raw in self._first:
                self._findings.add(abs(self._first[raw]), Fault.BLOB_CHANGED, detail)
        return len(self._first) if lacking else sum(sequence < 0 for sequence in self._first.values())


class ManifestLines:
    """The contents that a list of files names, from its bytes as they come."""

    def __init__(self, names: Names, sequence: int) -> None:
        self._names = names
        self._sequence = sequence
        self._rest = b""
        self._trouble: str | None = None

    def feed(self, chunk: bytes) -> None:
        *whole, self._rest = (self._rest + chunk).split(b"\n")
        for line in whole:
            self._line(line)
        if len(self._rest) > MOST_LINE_BYTES:
            self._rest = b""
            self._trouble = self._trouble or "a line of it is too long"

    def close(self) -> None:
        """When all of it came, and was what its name says."""
        if self._rest:
            self._line(self._rest)
        if self._trouble is not None:
            self._names.unreadable(self._sequence, f"names a list of files that cannot be read: {self._trouble}")

    def _line(self, line: bytes) -> None:
        if self._trouble is not None:
            return
        try:
            blob = _entries.decode(line).blob
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            self._trouble = str(error)
            return
        if blob is not None:
            self._names.add(self._sequence, Named((blob,)))
