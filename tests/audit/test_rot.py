"""What the audit itself has written rots as everything does: it is named, and the log is proven on."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from contracts import codec, subjects
from contracts.audits import Audit
from contracts.chain import Fault
from contracts.commands.audit import RotateAuditKey
from contracts.message import Command
from contracts.verifying import Trust
from infra.bus import reader
from infra.log.live import LiveView
from infra.verify import keeping
from infra.verify.log import verify_log
from tests.audit.rig import Auditing, auditing, write
from tests.bus.servers import Server, nats_in
from tests.faults.rotting import CHECKSUM_BYTES, Blocks

GONE = (Fault.MISSING, Fault.LOST, Fault.TRUNCATED)
EACH_TEN = Audit(checkpoint_events=10, checkpoint_s=0.05)
ROTATE = Command(id="c-1", type="audit.rotate", data=RotateAuditKey(reason="yearly"))
Before = Callable[[Auditing], Awaitable[None]]


async def nothing(_: Auditing) -> None:
    pass


async def rotated(audit: Auditing) -> None:
    subject = subjects.command(subjects.ANY_NODE, subjects.NO_SANDBOX, "audit", "rotate")
    await audit.part.handle(subject, codec.encode(ROTATE))


async def newest(server: Server, tag: str) -> int:
    found = await reader.last(await server.connect("executor"), subjects.event(subjects.NO_SANDBOX, tag))
    assert found is not None
    return found.seq


def flip(data: Path, sequence: int) -> None:
    Blocks(data).flip(sequence, -CHECKSUM_BYTES - 4)


@pytest.mark.parametrize(("tag", "before"), [("audit.checkpoint", nothing), ("audit.rotated", rotated)])
async def test_the_newest_of_the_audits_own_events_is_named_and_the_log_proven_on(
    tmp_path: Path, tag: str, before: Before
) -> None:
    """The server takes a subject for empty then, and lets nobody write there who knows of older ones."""
    own = tmp_path / "own"
    async with nats_in(tmp_path) as server:
        writer = await server.connect("executor")
        async with auditing(server, own, EACH_TEN) as audit:
            await audit.has_proven(await write(writer, 25))
            await before(audit)
            await audit.has_proven(await write(writer, 25, name="later"))
        gone = await newest(server, tag)
        await write(writer, 3, name="after")
    flip(tmp_path / "data", gone)
    async with nats_in(tmp_path) as server:
        writer = await server.connect("executor")
        kept = keeping.read(own)
        trust = Trust((), kept.key, kept.checkpoints)
        found = await verify_log(LiveView(writer), trust, lambda *_: None, log=kept.log)
        assert gone in {finding.sequence for finding in found.findings if finding.fault in GONE}
        async with auditing(server, own, EACH_TEN, check_after_s=0) as audit:
            await audit.has_proven(await write(writer, 25, name="more"))
            await audit.has_checked()
            await rotated(audit)
            await audit.has_proven(await write(writer, 5, name="last"))
            assert {(first, last) for fault, first, last in await audit.damages() if fault in GONE} == {(gone, gone)}


async def test_a_damage_is_told_also_where_the_last_one_that_was_told_is_gone(tmp_path: Path) -> None:
    own = tmp_path / "own"
    async with nats_in(tmp_path) as server:
        writer = await server.connect("executor")
        async with auditing(server, own, EACH_TEN) as audit:
            await audit.has_proven(await write(writer, 40))
    damaged: list[int] = []
    for sequence in (5, 15):
        flip(tmp_path / "data", sequence)
        async with nats_in(tmp_path) as server:
            async with auditing(server, own, EACH_TEN, check_after_s=0) as audit:
                await audit.has_checked()
            damaged.append(await newest(server, "audit.damaged"))
    flip(tmp_path / "data", damaged[-1])
    flip(tmp_path / "data", 25)
    async with nats_in(tmp_path) as server, auditing(server, own, EACH_TEN, check_after_s=0) as audit:
        await audit.has_checked()
        assert {first for _, first, _ in await audit.damages()} == {5, 15, 25, damaged[-1]}
