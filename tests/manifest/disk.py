"""Trees on disk, taken by the plainest means there are, to compare with what the program says."""

import hashlib
import os
import stat
from pathlib import Path

from contracts.events.file import EntryKind
from contracts.manifest import Entry, Tree, micros
from contracts.spelling import spell
from infra.blobs.blobs import Blobs


def taken(root: Path) -> Tree:
    """Everything beneath `root`, hashed."""
    tree: Tree = {}
    for directory, directories, files in os.walk(os.fsencode(root)):
        for name in directories + files:
            path = os.path.join(directory, name)
            relative = os.path.relpath(path, os.fsencode(root))
            tree[relative] = _entry(path, relative)
    return tree


def _entry(path: bytes, relative: bytes) -> Entry:
    info = os.lstat(path)
    text, encoded = spell(relative)
    kinds = {stat.S_IFREG: EntryKind.FILE, stat.S_IFDIR: EntryKind.DIRECTORY, stat.S_IFLNK: EntryKind.SYMLINK}
    kind = kinds.get(stat.S_IFMT(info.st_mode), EntryKind.OTHER)
    target = spell(os.readlink(path)) if kind == EntryKind.SYMLINK else None
    sha256 = hashlib.sha256(Path(os.fsdecode(path)).read_bytes()).hexdigest() if kind == EntryKind.FILE else None
    return Entry(
        path=text,
        path_bytes=encoded,
        kind=kind,
        size=info.st_size if kind == EntryKind.FILE else 0,
        mode=stat.S_IMODE(info.st_mode),
        mtime_us=None if kind == EntryKind.DIRECTORY else micros(info.st_mtime_ns),
        sha256=sha256,
        symlink=target.text if target else None,
        symlink_bytes=target.encoded if target else None,
        blob=sha256,
    )


async def kept(root: Path, blobs: Blobs) -> Tree:
    """The same, with every content stored."""
    tree = taken(root)
    for path, entry in tree.items():
        if entry.kind == EntryKind.FILE:
            await blobs.put(Path(os.fsdecode(os.path.join(os.fsencode(root), path))).read_bytes())
    return tree


def plant(root: Path) -> None:
    """A little of everything that a workspace may hold."""
    (root / "src" / "deep" / "deeper").mkdir(parents=True)
    (root / "empty").mkdir(mode=0o711)
    (root / "a.txt").write_text("hello\n")
    (root / "src" / "same.txt").write_text("hello\n")
    (root / "nothing").touch()
    (root / "src" / "run.sh").write_text("#!/bin/sh\n")
    (root / "src" / "run.sh").chmod(0o755)
    (root / "src" / "deep" / "large.bin").write_bytes(os.urandom(3_000_000))
    (root / "secret").write_text("s")
    (root / "secret").chmod(0o000)
    (root / "up").symlink_to("../../etc/passwd")
    (root / "src" / "link").symlink_to("../a.txt")
    (root / "looped").symlink_to("looped")
    (root / "ünï code\n").write_text("x")
    Path(os.fsdecode(os.fsencode(root) + b"/caf\xe9")).write_text("latin")
    os.symlink(b"caf\xe9", os.fsencode(root) + b"/to-caf\xe9")
    (root / "sticky").mkdir()
    (root / "sticky").chmod(0o3775)
    (root / "locked").mkdir()
    (root / "locked" / "inside").write_text("in")
    (root / "locked").chmod(0o500)
    os.utime(root / "a.txt", ns=(1, 1_234_567_890_123_456_000))
    os.utime(root / "up", ns=(1, 1_000_000_000), follow_symlinks=False)
