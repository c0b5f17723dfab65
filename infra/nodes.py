"""What the log and the vitals say of nodes, and the only way to say more of them in the log."""

import hashlib
from typing import NamedTuple

from msgspec.structs import replace

from contracts import codec, subjects
from contracts.errors import Conflict, Invalid
from contracts.events.node import VitalsNode
from contracts.message import Fact
from contracts.nodes import NodeRecord, fold_node
from contracts.registry import tag_of
from contracts.streams import VITALS_STREAM
from infra.bus import page, reader
from infra.bus.connection import Bus
from infra.bus.page import Entry
from infra.bus.publisher import Expect, append
from infra.journal import Journal


class Sign(NamedTuple):
    """The newest sign of life of a node."""

    entry: Entry
    vitals: VitalsNode


async def signs_of_life(bus: Bus) -> dict[str, Sign]:
    """By node, those of the last hour. Raises `Unavailable`."""
    found: dict[str, Sign] = {}
    for entry in await page.fetch_lasts(bus, [subjects.node_vitals()], stream=VITALS_STREAM):
        try:
            fact = codec.decode_fact(codec.decode_head(entry.data))
        except Invalid:
            continue
        if isinstance(fact, VitalsNode):
            found[entry.subject.rpartition(".")[2]] = Sign(entry, fact)
    return found


class NodeLog:
    """Remembers what it has read; `read` goes on from there."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._records: dict[str, NodeRecord] = {}
        self._sequence = 0

    def get(self, node: str) -> NodeRecord:
        return self._records.get(node) or NodeRecord(node=node)

    @property
    def known(self) -> list[str]:
        return list(self._records)

    async def read(self) -> dict[str, NodeRecord]:
        """By node, as the log has it now. Raises `Unavailable`."""
        newest = await reader.last(self._bus, subjects.node_events())
        if newest is not None and newest.seq > self._sequence:
            filters = [subjects.node_events()]
            async for entry in reader.read(self._bus, filters, self._sequence + 1, follow=False):
                self._sequence = entry.seq
                self._apply(entry)
        return dict(self._records)

    def _apply(self, entry: Entry) -> None:
        node = subjects.parse_event(entry.subject).scope or ""
        try:
            self._records[node] = fold_node(self.get(node), entry.seq, codec.decode_head(entry.data))
        except Invalid:
            return

    async def tell(
        self, journal: Journal, node: str, fact: Fact, *, command: str | None = None, identity: str = ""
    ) -> None:
        """Append it, if nobody has said anything of the node since it was read. Raises `Conflict`.

        `identity` tells apart who may have the same name.
        """
        expected = self.get(node).sequence
        rival = hashlib.sha256(f"{journal.node}/{command}{identity}".encode()).hexdigest()[:16]
        # By all that was read, not by what is expected: that may be nothing once more in a log that forgets.
        id_ = f"{node}.{self._sequence}.{tag_of(fact)}.{rival}"
        written = journal.write(subjects.NO_SANDBOX, fact, id=id_, command=command, scope=node)
        guard = Expect(subjects.node_events(node), expected)
        try:
            await append(self._bus, written.subject, written.payload, written.id, expect=guard)
        except Conflict:
            await self._forget(node)
            raise
        finally:
            await self.read()

    async def _forget(self, node: str) -> None:
        """What was read may have left the log by its limits: what the node is stays known, the next expects less."""
        newest = await reader.last(self._bus, subjects.node_events(node))
        stored = 0 if newest is None else newest.seq
        if stored <= self._sequence:
            self._records[node] = replace(self.get(node), sequence=stored)
