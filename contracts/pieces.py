"""Contents as an export has them, piece by piece, each held against its name."""

import hashlib

from contracts.exports import Piece
from contracts.naming import ManifestLines, Names


class Pieces:
    """Holds no content: a hash of the one that is being read."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._name: str | None = None
        self._hash = hashlib.sha256()
        self._size = 0
        self._lines: ManifestLines | None = None
        self.count = 0

    def feed(self, piece: Piece) -> None:
        if piece.blob != self._name:
            self.close()
            self._begin(piece.blob)
        if piece.offset != self._size:
            self._names.wrong(piece.blob, f"content {piece.blob} goes on at {piece.offset}, expected {self._size}")
        self._hash.update(piece.data_base64)
        self._size += len(piece.data_base64)
        if self._lines is not None:
            self._lines.feed(piece.data_base64)
        if piece.last:
            self._end(piece.blob)

    def _begin(self, name: str) -> None:
        self._name, self._hash, self._size = name, hashlib.sha256(), 0
        self._lines = self._names.lines_of(name) if self._names.is_manifest(name) else None

    def _end(self, name: str) -> None:
        lines, self._name, self._lines = self._lines, None, None
        self.count += 1
        if self._hash.hexdigest() != name:
            self._names.wrong(name, f"content {name} hashes to {self._hash.hexdigest()}")
            return
        self._names.right(name)
        if lines is not None:
            lines.close()

    def close(self) -> None:
        """When the last piece was fed, or the next content begins."""
        if self._name is not None:
            self._names.wrong(self._name, f"content {self._name} is cut off after {self._size} bytes")
            self._name = None
