"""An audit of a real log, in a directory of its own, that can be ended at any point."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from contracts import chain, codec, subjects
from contracts.audits import Audit, AuditState, GetAudit
from contracts.chain import Message
from contracts.errors import Unavailable
from contracts.events.audit import AuditCheckpoint, AuditDamaged
from contracts.message import Fact
from contracts.verifying import Trust, Verdict
from infra.audit import place
from infra.audit.signing import verify
from infra.bus import reader
from infra.bus.connection import Bus
from infra.bus.publisher import Ack, append
from infra.journal import Journal
from infra.log.live import LiveView
from infra.settings import Settings
from infra.verify.log import verify_log
from services.replay.audit.part import AuditPart
from tests.bus.servers import Server, until

OFTEN = Audit(checkpoint_events=10, checkpoint_s=0.05)
SELDOM = Audit(checkpoint_events=20_000, checkpoint_s=86_400)
NEVER_S = 86_400.0
F = TypeVar("F", bound=Fact)


class Auditing:
    def __init__(self, part: AuditPart, running: asyncio.Task[None], bus: Bus, data: Path) -> None:
        self.part = part
        self.running = running
        self.bus = bus
        self.data = data

    @property
    def place(self) -> Path:
        return self.data / "audit"

    async def look(self) -> None:
        """After those who sign next, once: whoever runs it beside other nodes does so every few seconds."""
        await self.part._heirs.look()

    async def state(self) -> AuditState:
        return await self.part.state(GetAudit())

    async def has_seen(self, sequence: int) -> None:
        async def seen() -> bool:
            return self.part._auditor.next > sequence and self.part._auditor.begun.is_set()

        await until(seen)

    async def has_proven(self, sequence: int) -> None:
        async def proven() -> bool:
            return (await self.state()).checkpoint >= sequence

        await until(proven)

    async def has_checked(self) -> None:
        await until(lambda: self.part._checker.done)

    async def has_damages(self, count: int) -> None:
        async def has() -> bool:
            try:
                return len(await self.damages()) >= count
            except Unavailable:
                return False

        await until(has)

    async def damages(self) -> list[tuple[str, int, int]]:
        return [(each.fault, each.first_sequence, each.last_sequence) for each in (await self.state()).damages]


def settings_of(data: Path, audit: Audit, node: str = "local") -> Settings:
    return Settings(data=data, audit=audit, node=node)


@contextlib.asynccontextmanager
async def auditing(
    server: Server,
    data: Path,
    audit: Audit = OFTEN,
    *,
    node: str = "local",
    check_after_s: float = NEVER_S,
    ends: bool = True,
) -> AsyncIterator[Auditing]:
    """`ends` = in an orderly way, with a last checkpoint; else as if killed."""
    bus = await server.connect("replay")
    part = AuditPart(bus, settings_of(data, audit, node), Journal(bus, service="replay", node=node))
    running = asyncio.create_task(part.run(check_after_s=check_after_s))
    try:
        yield Auditing(part, running, bus, data)
    finally:
        if not ends:
            part._auditor.has_last_words = False
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await bus.aclose()
    if ends:
        with contextlib.suppress(asyncio.CancelledError):
            running.result()


async def standing_by(server: Server, data: Path, node: str, audit: Audit = OFTEN) -> AuditPart:
    """Does nothing by itself; what it does while it stands by is `look`."""
    place.prepare(data)
    bus = await server.connect("replay")
    return AuditPart(bus, settings_of(data, audit, node), Journal(bus, service="replay", node=node))


async def look(*parts: AuditPart) -> None:
    """Each in turn, after those who sign next."""
    for part in parts:
        await part._heirs.look()


async def facts(bus: Bus, kind: type[F]) -> list[F]:
    """All of one kind that the log has of the audit."""
    filters = subjects.events_of(subjects.NO_SANDBOX, family="audit")
    heads = [codec.decode_head(entry.data) async for entry in reader.read(bus, filters, follow=False)]
    return [fact for head in heads if isinstance(fact := codec.decode_fact(head), kind)]


async def verified(bus: Bus, *keys: str) -> Verdict:
    """As `cloche verify --key` does it."""
    return await verify_log(LiveView(bus), Trust(keys, None, ()), lambda *_: None)


async def write(bus: Bus, count: int, *, name: str = "e", size: int = 20) -> int:
    """So many events by the executor; returns the sequence of the last."""
    last = 0
    for begin in range(0, count, 20):
        acks = await asyncio.gather(
            *(_append(bus, name, number, size) for number in range(begin, min(count, begin + 20)))
        )
        last = max(ack.seq for ack in acks)
    return last


async def _append(bus: Bus, name: str, number: int, size: int) -> Ack:
    payload = json.dumps({"n": number, "x": "x" * size}).encode()
    return await append(bus, f"cloche.log.sb-{number % 3}.command.noise.run", payload, f"executor.{name}.{number}")


async def entries(bus: Bus) -> list[reader.Entry]:
    return [entry async for entry in reader.read(bus, [subjects.LOG], follow=False, on_gap=lambda _: None)]


async def checkpoints(bus: Bus) -> list[AuditCheckpoint]:
    found = [entry async for entry in reader.read(bus, [subjects.checkpoints()], follow=False)]
    return [codec.decode(codec.decode_head(entry.data).data, AuditCheckpoint) for entry in found]


async def damages(bus: Bus) -> list[AuditDamaged]:
    subject = subjects.event(subjects.NO_SANDBOX, "audit.damaged")
    found = [entry async for entry in reader.read(bus, [subject], follow=False)]
    return [codec.decode(codec.decode_head(entry.data).data, AuditDamaged) for entry in found]


async def prove(bus: Bus, *, first: int = 1, previous: str | None = None) -> list[AuditCheckpoint]:
    """Recomputes every checkpoint from the log itself: one chain without a fork or a hole, each signed."""
    messages = {entry.seq: entry for entry in await entries(bus)}
    found = await checkpoints(bus)
    for said in found:
        assert said.first_sequence == first, [(each.first_sequence, each.last_sequence) for each in found]
        assert previous is None or said.previous == previous
        again = chain.Range(said.log, first, said.previous)
        gaps = dict(said.missing)
        while again.next <= said.last_sequence:
            if again.next in gaps:
                again.add_missing(again.next, gaps[again.next])
            else:
                entry = messages[again.next]
                again.add(Message(entry.seq, entry.subject, entry.msg_id, entry.stored_at, entry.data))
        assert again.hash == said.hash
        assert msgspec.structs.replace(again.checkpoint(said.key), signature=said.signature) == said
        assert verify(said.key, chain.statement(said), said.signature)
        first, previous = said.last_sequence + 1, said.hash
    return found


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]
