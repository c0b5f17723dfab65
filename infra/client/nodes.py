"""The nodes, as a program outside sees them; and orders about them."""

import datetime
from collections.abc import AsyncIterator
from enum import StrEnum

from msgspec import Struct

from contracts import codec, subjects
from contracts.commands.node import DrainNode, LoseNode
from contracts.errors import Invalid
from contracts.events.node import VitalsNode
from contracts.events.sandbox import SandboxRecovering
from contracts.message import Command, Fact, Order
from contracts.nodes import DRAINED, NodeRecord, Standing, fold_node, is_alive
from contracts.registry import command_tag
from contracts.streams import COMMANDS_STREAM, VITALS_STREAM
from infra import asking, clock
from infra.bus import reader
from infra.bus.connection import Bus
from infra.bus.publisher import append
from infra.bus.server_time import server_now
from infra.client.orders import raise_if_given_up
from infra.ids import new_id
from infra.nodes import NodeLog, signs_of_life


class NodeHealth(StrEnum):
    ALIVE = "alive"
    SILENT = "silent"
    DRAINING = "draining"
    DRAINED = "drained"
    LOST = "lost"


class NodeView(Struct, frozen=True, kw_only=True):
    node: str
    health: NodeHealth
    silent_s: float | None = None
    """Since its last sign of life, by the servers' clock; None = that is more than an hour, or there was none."""
    vitals: VitalsNode | None = None
    reason: str = ""
    """Why it is drained, or taken for gone."""
    kept: dict[str, str] = {}
    """Sandboxes that cannot leave, and why."""


async def nodes(bus: Bus) -> list[NodeView]:
    """All that show signs of life, or that the log knows. Raises `Unavailable`."""
    signs, records = await signs_of_life(bus), await NodeLog(bus).read()
    now = await server_now(bus, VITALS_STREAM)
    found = []
    for node in sorted({*signs, *records}):
        record, sign = records.get(node, NodeRecord(node=node)), signs.get(node)
        silent_s = None if sign is None else round(max((now - sign.entry.time).total_seconds(), 0.0), 1)
        vitals = None if sign is None else sign.vitals
        found.append(
            NodeView(
                node=node,
                health=_health(record, silent_s, vitals),
                silent_s=silent_s,
                vitals=vitals,
                reason=record.reason,
                kept=record.kept,
            )
        )
    return found


def _health(record: NodeRecord, silent_s: float | None, vitals: VitalsNode | None) -> NodeHealth:
    if record.standing is Standing.LOST:
        return NodeHealth.LOST
    if silent_s is None or vitals is None or not is_alive(silent_s, vitals.every_s):
        return NodeHealth.SILENT
    if record.standing in (Standing.DRAINING, Standing.DRAINED):
        return NodeHealth(record.standing.value)
    return NodeHealth.ALIVE


class NodeNews(Struct, frozen=True, kw_only=True):
    sequence: int
    time: datetime.datetime
    fact: Fact
    sandbox: str | None = None
    """Where it tells of one that leaves a node."""
    record: NodeRecord
    """As it is with this."""


async def drain(bus: Bus, node: str, order: DrainNode) -> AsyncIterator[NodeNews]:
    """What the log says of the node from the order on, for ever. Raises the reason when it was refused."""
    record = await _known(bus, node)
    command = await _publish(bus, node, order)
    async for news in _told(bus, record, command):
        yield news


async def lose(bus: Bus, order: LoseNode) -> None:
    """Returns when the log says that it is gone. Raises `Invalid` for one that shows signs of life."""
    record = await _known(bus, order.node)
    if record.standing is Standing.LOST:
        return
    command = await _publish(bus, subjects.ANY_NODE, order)
    async for news in _told(bus, record, command):
        if news.record.standing is Standing.LOST:
            return


async def _known(bus: Bus, node: str) -> NodeRecord:
    if node not in {each.node for each in await nodes(bus)}:
        raise Invalid(f"there is no node {node!r}: see `cloche nodes`")
    return (await NodeLog(bus).read()).get(node, NodeRecord(node=node))


async def _publish(bus: Bus, to: str, order: Order) -> str:
    tag = command_tag(order)
    command = Command(id=new_id("c"), source=asking.source.get(), type=tag, time=clock.now(), data=order)
    family, _, verb = tag.partition(".")
    subject = subjects.command(to, subjects.NO_SANDBOX, family, verb)
    await append(bus, subject, codec.encode(command), command.id, stream=COMMANDS_STREAM)
    return command.id


async def _told(bus: Bus, record: NodeRecord, command: str) -> AsyncIterator[NodeNews]:
    refused = subjects.dead_letter(subjects.NO_SANDBOX, "spawner", command)
    leaving = subjects.events_of(family="sandbox", kind="recovering")[0]
    filters = [subjects.node_events(record.node), refused, leaving]
    async for entry in reader.read(bus, filters, record.sequence + 1, follow=True):
        head = codec.decode_head(entry.data)
        raise_if_given_up(head, command)
        fact = codec.decode_fact(head)
        if isinstance(fact, SandboxRecovering):
            if fact.reason == DRAINED:
                yield NodeNews(sequence=entry.seq, time=head.time, fact=fact, sandbox=head.sandboxid, record=record)
            continue
        record = fold_node(record, entry.seq, head)
        if fact is not None:
            yield NodeNews(sequence=entry.seq, time=head.time, fact=fact, record=record)
