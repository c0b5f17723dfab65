"""A made-up history of a sandbox's files in a real log, and what the tree was at each sequence of it."""

import random

from contracts.changes import alone, compare, renamed, told
from contracts.events.file import EntryKind, FileBatch, FileManifest, FileOverflow, FileReady
from contracts.manifest import Entry, Tree
from contracts.message import Fact
from contracts.spelling import spell
from infra.blobs.blobs import Blobs
from infra.bus.publisher import append
from infra.journal import Journal
from infra.manifest.stored import store_manifest

WORKSPACE = "/workspace"
NAMES = [b"a", b"b", b"src", b"src/main.py", b"src/caf\xe9", b"src/lib", b"src/lib/x", b"out", b"out/1", b"out/2"]


class Story:
    """Writes as the file watcher does."""

    def __init__(self, blobs: Blobs, sandbox: str = "sb", seed: int = 7) -> None:
        self.blobs = blobs
        self.sandbox = sandbox
        self.trees: dict[int, Tree] = {}
        """The tree after each event of this sandbox, by its sequence."""
        self.tree: Tree = {}
        self._journal = Journal(blobs.bus, service="file_watcher", node="local")
        self._random = random.Random(seed)
        self._number = 0

    async def tell(self, fact: Fact) -> int:
        self._number += 1
        event = self._journal.write(self.sandbox, fact, id=f"{self.sandbox}.{self._number}")
        ack = await append(self.blobs.bus, event.subject, event.payload, event.id)
        self.trees[ack.seq] = dict(self.tree)
        return ack.seq

    async def ready(self) -> int:
        stored = await store_manifest(self.blobs, self.tree, WORKSPACE)
        return await self.tell(FileReady(files=stored.files, manifest=stored.sha256))

    async def manifest(self) -> int:
        stored = await store_manifest(self.blobs, self.tree, WORKSPACE)
        return await self.tell(FileManifest(manifest=stored.sha256, files=stored.files, bytes=stored.bytes))

    async def step(self) -> None:
        """Something changes, or a manifest is due, or something is told that changes nothing."""
        if (chance := self._random.random()) < 0.1:
            await self.manifest()
        elif chance < 0.15:
            await self.tell(FileOverflow(reason="queue full"))
        else:
            await self._change()

    async def _change(self) -> None:
        old = dict(self.tree)
        moves: dict[bytes, bytes] = {}
        for path in self._random.sample(NAMES, self._random.choice([1, 1, 2, 4])):
            if path in self.tree and self._random.random() < 0.4:
                gone = self.tree.pop(path)
                moved = path + b"-moved"
                if self._random.random() < 0.5:
                    self.tree[moved], moves[moved] = renamed(gone, moved), path
            else:
                self.tree[path] = await self._entry(path)
        changes = [told(each, WORKSPACE) for each in compare(old, self.tree, moves)]
        if changes:
            await self.tell(alone(changes[0]) if len(changes) == 1 else FileBatch(changes=tuple(changes)))

    async def _entry(self, path: bytes) -> Entry:
        text, encoded = spell(path)
        if path in (b"src", b"src/lib", b"out"):
            mode = self._random.choice([0o700, 0o755])
            return Entry(path=text, path_bytes=encoded, kind=EntryKind.DIRECTORY, size=0, mode=mode)
        content = self._random.randbytes(self._random.randrange(40))
        sha256 = await self.blobs.put(content)
        return Entry(
            path=text,
            path_bytes=encoded,
            kind=EntryKind.FILE,
            size=len(content),
            mode=0o644,
            mtime_us=self._random.randrange(10**15),
            sha256=sha256,
            blob=sha256,
        )
