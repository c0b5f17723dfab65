"""What a runtime remembers of a conversation, kept in the log so that it goes on elsewhere."""

import hashlib
from collections.abc import AsyncIterator
from functools import partial
from typing import NamedTuple

from contracts import codec, subjects
from contracts.errors import Invalid
from contracts.events import agent as facts
from contracts.message import Fact
from contracts.spec import ForkOf, SandboxSpec
from infra.blobs.blobs import Blobs
from infra.bus import reader
from infra.bus.connection import Bus
from infra.bus.page import Entry
from infra.lineage import lifecycle_at
from infra.log.choosing import view_of
from infra.log.view import BlobSource
from services.agent.pen import Pen
from services.agent.record import Record

INLINE = 48 * 1024
LONGEST_CHAIN = 1000
"""Runs that one conversation may have gone through."""


class Document(NamedTuple):
    session: str
    path: str
    data: bytes


class Place(NamedTuple):
    """Where a run of the past is on record: events beyond `end` were not yet when its sandbox was forked."""

    sandbox: str
    run: str
    end: int | None


class Transcripts:
    def __init__(self, bus: Bus, pen: Pen, record: Record, spec: SandboxSpec) -> None:
        self._bus = bus
        self._pen = pen
        self._record = record
        self._spec = spec
        self._blobs = Blobs(bus)

    async def keep(self, key: str, session: str, path: str, data: bytes, *, replaces: bool = False) -> None:
        """The next piece of the document `path` of a session; with `replaces`, the whole of it.

        Known secrets are masked, as everywhere in the log.
        """
        if self._pen.has(key):
            return
        data = self._bus.redactor.mask(data)
        text = _text(data) if len(data) <= INLINE else None
        sha256 = hashlib.sha256(data).hexdigest() if text is not None else await self._blobs.put(data)
        kept = facts.AgentTranscript(
            run=self._record.run,
            session=session,
            path=path,
            size=len(data),
            sha256=sha256,
            data=text,
            replaces=replaces,
        )
        await self._pen.write(key, kept)

    async def documents(self) -> list[Document]:
        """Everything that was kept of this conversation: by this run, and by those that it goes on from.

        Raises `BlobMissing`, `BlobDamaged`.
        """
        whole: dict[tuple[str, str], bytearray] = {}
        async for fact, blobs in self._facts("transcript"):
            if isinstance(fact, facts.AgentTranscript):
                document = whole.setdefault((fact.session, fact.path), bytearray())
                if fact.replaces:
                    document.clear()
                document += fact.data.encode() if fact.data is not None else await blobs.get(fact.sha256)
        return [Document(session, path, bytes(data)) for (session, path), data in whole.items()]

    async def conversation(self, most: int = 200) -> list[Fact]:
        """What was said and done, oldest first, the last `most` of it: for a runtime that can only be told of it."""
        told: list[Fact] = []
        async for fact, _ in self._facts(None):
            match fact:
                case facts.AgentMessage(partial=True) | facts.AgentThinking():
                    continue
                case facts.AgentStarted() | facts.UserMessage() | facts.AgentMessage() | facts.AgentToolUse():
                    told.append(fact)
        return told[-most:]

    async def _facts(self, kind: str | None) -> AsyncIterator[tuple[Fact, BlobSource]]:
        for place in await self._chain():
            view = await reader.patiently(self._bus, partial(view_of, sandbox=place.sandbox))
            filters = subjects.events_of(
                place.sandbox, family=None if kind is None else "agent", kind=kind, scope=place.run
            )
            async for entry in view.read(filters, 1, end=place.end):
                try:
                    fact = codec.decode_fact(codec.decode_head(entry.data))
                except Invalid:
                    continue
                if fact is not None:
                    yield fact, view.blobs

    async def _chain(self) -> list[Place]:
        """The runs of this conversation, oldest first, this one at the end."""
        places = [Place(self._record.sandbox, self._record.run, None)]
        resumed, spec, sandbox, end = self._record.started.resumed, self._spec, self._record.sandbox, None
        for _ in range(LONGEST_CHAIN):
            if resumed is None:
                break
            found = await find_run(self._bus, sandbox, spec, resumed, end)
            if found is None:
                break
            places.insert(0, found.place)
            sandbox, spec, end, resumed = found.place.sandbox, found.spec, found.place.end, found.started.resumed
        return places


class Found(NamedTuple):
    place: Place
    spec: SandboxSpec
    started: facts.AgentStarted


async def find_run(bus: Bus, sandbox: str, spec: SandboxSpec, run: str, end: int | None = None) -> Found | None:
    """An earlier run of this sandbox, or of one that it was forked from; None where there is none."""
    for _ in range(LONGEST_CHAIN):
        entry = await reader.patiently(bus, partial(_begun, sandbox=sandbox, run=run))
        fact = None if entry is None else codec.decode_fact(codec.decode_head(entry.data))
        if isinstance(fact, facts.AgentStarted) and entry is not None and (end is None or entry.seq <= end):
            return Found(Place(sandbox, run, end), spec, fact)
        source = spec.workspace.source
        if not isinstance(source, ForkOf):
            return None
        end = source.sequence
        origin = await reader.patiently(bus, partial(lifecycle_at, sandbox=source.sandbox, sequence=end))
        if origin is None:
            return None
        sandbox, spec = source.sandbox, origin.spec
    return None


async def _begun(bus: Bus, sandbox: str, run: str) -> Entry | None:
    return await (await view_of(bus, sandbox)).last(subjects.event(sandbox, "agent.started", run))


def _text(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None
