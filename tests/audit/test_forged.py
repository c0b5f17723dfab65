"""What somebody has put into the store in the name of the audit does not stop it, and does not pass for its word."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from contracts import subjects
from contracts.events.audit import AuditCheckpoint
from infra.bus.connection import Bus
from infra.bus.publisher import append
from infra.journal import Journal
from tests.audit.rig import auditing, checkpoints, write
from tests.bus.servers import nats_in


async def forge(bus: Bus, fact: AuditCheckpoint) -> None:
    written = Journal(bus, service="replay", node="local").write(subjects.NO_SANDBOX, fact, id="forged")
    await append(bus, written.subject, written.payload, written.id)


@pytest.mark.parametrize(
    "said",
    [
        {"hash": "zz"},
        {"last_sequence": 2**40},
        {"last_sequence": 10**30},
        {"first_sequence": -(10**30)},
        {"log": "../../etc"},
    ],
    ids=str,
)
async def test_a_checkpoint_that_cannot_be_one_is_passed_over(tmp_path: Path, said: dict[str, object]) -> None:
    async with nats_in(tmp_path) as server:
        writer, forger = await server.connect("executor"), await server.connect("replay")
        async with auditing(server, tmp_path / "own") as audit:
            await audit.has_proven(await write(writer, 5))
            log = audit.part._auditor.log
        last = (await checkpoints(writer))[-1]
        forged = replace(last, **said)
        await forge(forger, forged)
        async with auditing(server, tmp_path / "own") as audit:
            await audit.has_proven(await write(writer, 5, name="after"))
            assert (await audit.state()).log == log
        honest = [each for each in await checkpoints(writer) if each != forged]
        assert honest[-1].last_sequence > last.last_sequence


async def test_another_log_in_the_place_of_the_one_that_was_proven_is_damage(tmp_path: Path) -> None:
    for place in ("one", "two"):
        (tmp_path / place).mkdir()
        async with nats_in(tmp_path / place) as server, auditing(server, tmp_path / place / "own") as audit:
            await audit.has_proven(await write(await server.connect("executor"), 5))
    async with nats_in(tmp_path / "two") as server:
        for _ in range(2):
            async with auditing(server, tmp_path / "one" / "own") as audit:
                await audit.part._auditor.begun.wait()
                assert await audit.damages() == [("broken_chain", 1, 1)]
