"""Keys that follow the one that signs: announced, named in advance, and on duty when their turn comes."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from contracts import chain, subjects
from contracts.audits import Audit
from contracts.errors import Conflict, Unavailable
from contracts.events.audit import AuditHeir, AuditRotated, AuditStandby
from contracts.events.node import NodeLost
from contracts.message import Fact
from infra.audit.keys import Keys
from infra.audit.signing import public_of, sign
from infra.bus.connection import Bus
from infra.bus.publisher import append
from infra.journal import Journal
from services.replay.audit.part import AuditPart
from services.replay.audit.signer import Elsewhere, Signer
from tests.audit.rig import OFTEN, SELDOM, Auditing, auditing, checkpoints, facts, look, standing_by, verified, write
from tests.audit.test_rotation import SUBJECT, order
from tests.bus.servers import Server, nats_in, until


def key_in(data: Path) -> str:
    key = Keys(data / "audit").current()
    assert key is not None
    return public_of(key)


@contextlib.asynccontextmanager
async def signed_by(server: Server, data: Path, node: str, audit: Audit = OFTEN) -> AsyncIterator[Auditing]:
    """On duty until it is killed."""
    async with auditing(server, data, audit, node=node, ends=False) as found:
        await found.part._auditor.begun.wait()
        yield found


async def begin(part: AuditPart) -> None:
    """By hand, step by step, from here on."""
    part._auditor._epoch = await part._bus.wait_connected()
    await part._auditor._begin()


async def tell(bus: Bus, fact: Fact, *, id_: str, node: str, scope: str | None = None) -> None:
    written = Journal(bus, service="replay", node=node).write(subjects.NO_SANDBOX, fact, id=id_, scope=scope)
    await append(bus, written.subject, written.payload, written.id)


async def lose(server: Server, node: str) -> None:
    bus = await server.connect("spawner")
    fact = NodeLost(node=node, reason="it burnt", noticed_by="other")
    written = Journal(bus, service="spawner", node="other").write(
        subjects.NO_SANDBOX, fact, id=f"lost.{node}", scope=node
    )
    await append(bus, written.subject, written.payload, written.id)


async def test_the_first_key_leads_through_a_takeover_a_rotation_a_return_and_another_takeover(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    async with nats_in(tmp_path) as server:
        writer = await server.connect("executor")
        async with signed_by(server, one, "n1") as first:
            await first.has_proven(await write(writer, 25))
            trusted = key_in(one)
            await look(await standing_by(server, two, "n2"))
            await first.look()
        async with signed_by(server, two, "n2") as second:
            await second.has_proven(await write(writer, 25, name="second"))
            assert key_in(two) != trusted
            returned = await standing_by(server, one, "n1")
            await look(returned)
            await second.look()
            await second.part.handle(SUBJECT, order(1))
            await second.has_proven(await write(writer, 25, name="rotated"))
            # The new key knows nothing of those that the old one has named, and names them again.
            await second.look()
            (current,) = [each for each in (await second.state()).keys if each.current]
            assert [each.node for each in current.heirs] == ["n1"]
        async with auditing(server, one, node="n1", check_after_s=0) as first:
            await first.has_proven(await write(writer, 25, name="again"))
            await first.has_checked()
            assert await first.damages() == []
        reasons = [each.reason for each in await facts(writer, AuditRotated)]
        assert reasons == ["node n2 took over", "yearly", "node n1 took over"]
        verdict = await verified(writer, trusted)
        assert verdict.findings == ()
        assert len(verdict.keys) == 4
        assert verdict.unproven <= 1


async def test_a_signer_that_lost_duty_proves_nothing_beyond_the_change_that_replaced_it(tmp_path: Path) -> None:
    """The old one goes on where it was stopped: once before it read of the change, once after."""
    one, two = tmp_path / "one", tmp_path / "two"
    async with nats_in(tmp_path) as server:
        writer = await server.connect("executor")
        old = await standing_by(server, one, "n1", SELDOM)
        await begin(old)
        await write(writer, 5)
        await old._auditor.look()
        await old._auditor._checkpoint()
        trusted = key_in(one)
        heir = await standing_by(server, two, "n2", SELDOM)
        await look(heir, old)
        await write(writer, 5, name="before")
        await old._auditor.look()

        await begin(heir)
        await heir._auditor.look()
        await heir._signer.show(heir._auditor.log)
        (changed,) = await facts(writer, AuditRotated)
        assert changed.key == trusted

        # What it had read before is its to prove, if nobody else has.
        await old._auditor._checkpoint()
        # The other had read as much, and finds out.
        with pytest.raises(Conflict):
            await heir._auditor._checkpoint()
        await begin(heir)

        await write(writer, 5, name="after")
        await old._auditor.look()
        with pytest.raises(Elsewhere):
            await old._auditor._checkpoint()
        await heir._auditor.look()
        await heir._auditor._checkpoint()
        assert [each.key for each in await checkpoints(writer)] == [trusted, trusted, changed.next]
        assert len(await facts(writer, AuditRotated)) == 1
        verdict = await verified(writer, trusted)
        assert verdict.findings == ()
        assert verdict.unproven <= 1


async def test_a_server_that_does_not_know_of_a_change_yet_is_not_asked_who_signs(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        writer = await server.connect("executor")
        part = await standing_by(server, tmp_path / "one", "n1", SELDOM)
        await begin(part)
        last = await write(writer, 5)
        await part._auditor.look()
        # As if another server had shown it.
        part._signer.met(last + 1)
        with pytest.raises(Unavailable, match="lags behind"):
            await part._auditor._checkpoint()
        # A log that has none from the beginning has been cut.
        await begin(part)
        await part._auditor.look()
        await part._auditor._checkpoint()
        assert [each.last_sequence for each in await checkpoints(writer)] == [last]


async def test_a_rotation_that_a_takeover_has_overtaken_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    async with nats_in(tmp_path) as server:
        writer = await server.connect("executor")
        async with signed_by(server, one, "n1") as first:
            await first.has_proven(await write(writer, 5))
            trusted, heir = key_in(one), await standing_by(server, two, "n2")
            await look(heir, first.part)
            prepare = Signer._prepare

            async def overtaken(self: Signer, log: str) -> object:
                monkeypatch.undo()
                await heir._signer.show(log)
                return await prepare(self, log)

            monkeypatch.setattr(Signer, "_prepare", overtaken)
            with pytest.raises(Conflict):
                await first.part._signer.rotate(first.part._auditor.log, command="c-1", reason="yearly")
        assert [each.reason for each in await facts(writer, AuditRotated)] == ["node n2 took over"]
        assert (await verified(writer, trusted)).findings == ()


async def test_a_key_that_a_change_was_told_of_signs_no_more_whatever_interrupts_us_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        monkeypatch.undo()
        raise RuntimeError("here something is wrong")

    async with nats_in(tmp_path) as server:
        writer = await server.connect("executor")
        async with signed_by(server, tmp_path / "one", "n1") as first:
            await first.has_proven(await write(writer, 5))
            trusted = key_in(tmp_path / "one")
            monkeypatch.setattr(Signer, "_promote", fail)
            with pytest.raises(RuntimeError):
                await first.part.handle(SUBJECT, order(1))
            await first.has_proven(await write(writer, 25, name="more"))
        assert len(await facts(writer, AuditRotated)) == 1
        assert (await verified(writer, trusted)).findings == ()


async def test_of_two_heirs_one_takes_over_and_the_other_is_an_heir_of_that_one(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        writer = await server.connect("executor")
        async with signed_by(server, tmp_path / "one", "n1") as first:
            await first.has_proven(await write(writer, 5))
            trusted, log = key_in(tmp_path / "one"), first.part._auditor.log
            heirs = [await standing_by(server, tmp_path / node, node) for node in ("n2", "n3")]
            await look(*heirs, first.part)
        taken = await asyncio.gather(*(each._signer.show(log) for each in heirs), return_exceptions=True)
        assert sum(isinstance(each, str) for each in taken) == 1
        winner, loser = heirs if isinstance(taken[0], str) else reversed(heirs)
        loser._signer.forget()
        with pytest.raises(Elsewhere):
            await loser._signer.show(log)
        await look(winner)
        assert await loser._signer.show(log) != await winner._signer.show(log)
        assert len(await facts(writer, AuditRotated)) == 2
        assert (await verified(writer, trusted)).findings == ()


async def test_nobody_announces_or_names_a_key_that_was_replaced(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    async with nats_in(tmp_path) as server:
        writer = await server.connect("executor")
        async with signed_by(server, one, "n1") as first:
            await first.has_proven(await write(writer, 5))
            log, heir = first.part._auditor.log, await standing_by(server, two, "n2")
            await look(heir, first.part)
        await heir._signer.show(log)
        # As after a crash between the change and the file: the key that signs is still called the next one.
        Keys(two / "audit").prepare()
        (two / "audit" / "key.pem").replace(two / "audit" / "next.pem")
        returned = await standing_by(server, one, "n1")
        await look(returned, heir)
        await returned._signer.show(log)
        gone = await standing_by(server, two, "n2")
        # Its old announcement is the last one that the log has of it.
        await look(returned)
        assert [each.node for each in await facts(writer, AuditHeir)] == ["n2", "n1"]
        await look(gone, returned)
        rotated = await facts(writer, AuditRotated)
        announced = [each.key for each in await facts(writer, AuditStandby)]
        assert len(set(announced)) == len(announced) == 3
        assert announced[-1] not in {key for each in rotated for key in (each.key, each.next)}
        assert (await facts(writer, AuditHeir))[-1].next == announced[-1]


async def test_each_is_announced_and_named_once(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        writer = await server.connect("executor")
        async with signed_by(server, tmp_path / "one", "n1") as first:
            await first.has_proven(await write(writer, 5))
            heir = await standing_by(server, tmp_path / "two", "n2")
            for _ in range(3):
                await look(heir, first.part, await standing_by(server, tmp_path / "two", "n2"))
        assert len(await facts(writer, AuditStandby)) == len(await facts(writer, AuditHeir)) == 1


async def test_who_announces_itself_again_is_named_again_because_the_log_may_drop_both(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        writer, again = await server.connect("executor"), await server.connect("replay")
        async with signed_by(server, tmp_path / "one", "n1") as first:
            await first.has_proven(await write(writer, 5))
            await look(await standing_by(server, tmp_path / "two", "n2"), first.part)
            (standby,) = await facts(writer, AuditStandby)
            await tell(again, standby, id_="again", node="n2", scope="n2")
            await look(first.part, first.part)
        assert [each.next for each in await facts(writer, AuditHeir)] == [standby.key] * 2


@pytest.mark.parametrize(("heirs", "named"), [((), []), (("n3", "n9"), ["n3"]), (("*",), ["n2", "n3"])], ids=str)
async def test_settings_say_which_nodes_are_named(tmp_path: Path, heirs: tuple[str, ...], named: list[str]) -> None:
    async with nats_in(tmp_path) as server:
        writer = await server.connect("executor")
        async with signed_by(server, tmp_path / "one", "n1", replace(OFTEN, heirs=heirs)) as first:
            await first.has_proven(await write(writer, 5))
            for node in ("n2", "n3"):
                await look(await standing_by(server, tmp_path / node, node))
            await first.look()
        assert sorted(each.node for each in await facts(writer, AuditHeir)) == named


async def test_whoever_announces_the_key_of_another_is_not_named(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        writer, forger = await server.connect("executor"), await server.connect("replay")
        async with signed_by(server, tmp_path / "one", "n1") as first:
            await first.has_proven(await write(writer, 5))
            await look(await standing_by(server, tmp_path / "two", "n2"))
            (honest,) = await facts(writer, AuditStandby)
            await tell(forger, replace(honest, node="n4"), id_="a", node="n4", scope="n4")
            await tell(forger, honest, id_="b", node="n2", scope="n5")
            await tell(forger, replace(honest, log="other", node="n6"), id_="c", node="n6", scope="n6")
            await first.look()
        assert [each.node for each in await facts(writer, AuditHeir)] == ["n2"]


@pytest.mark.parametrize("signature", ["", "00" * 64], ids=["unsigned", "signed by nobody"])
async def test_a_change_of_keys_without_a_proof_does_not_stop_the_one_that_signs(
    tmp_path: Path, signature: str
) -> None:
    async with nats_in(tmp_path) as server:
        writer, forger = await server.connect("executor"), await server.connect("replay")
        async with signed_by(server, tmp_path / "one", "n1") as first:
            await first.has_proven(await write(writer, 5))
            key, log = key_in(tmp_path / "one"), first.part._auditor.log
            forged = AuditRotated(log=log, key=key, next="ab" * 32, signature=signature, proof="00" * 64)
            await tell(forger, forged, id_="forged", node="n9")
            await first.has_proven(await write(writer, 25, name="more"))
            assert [each.key for each in (await first.state()).keys] == [key]
        assert {each.key for each in await checkpoints(writer)} == {key}


async def test_a_word_that_the_key_has_not_given_makes_no_heir(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        writer, forger = await server.connect("executor"), await server.connect("replay")
        async with signed_by(server, tmp_path / "one", "n1") as first:
            await first.has_proven(await write(writer, 5))
            key, log = key_in(tmp_path / "one"), first.part._auditor.log
        two = await standing_by(server, tmp_path / "two", "n2")
        await look(two)
        waiting = Keys(tmp_path / "two" / "audit").prepare()
        forged = AuditHeir(log=log, key=key, node="n2", next=public_of(waiting), signature="")
        forged = replace(forged, signature=sign(waiting, chain.rotation_statement(forged)))
        await tell(forger, forged, id_="forged", node="n1", scope="n2")
        with pytest.raises(Elsewhere):
            await two._signer.show(log)
        assert await facts(writer, AuditRotated) == []


async def test_what_a_replaced_key_says_late_does_not_hide_the_word_of_the_one_that_signs(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        writer, late = await server.connect("executor"), await server.connect("replay")
        async with signed_by(server, tmp_path / "one", "n1") as first:
            await first.has_proven(await write(writer, 5))
            trusted, log = key_in(tmp_path / "one"), first.part._auditor.log
            two, three = [await standing_by(server, tmp_path / node, node) for node in ("n2", "n3")]
            await look(two, three, first.part)
        await two._signer.show(log)
        stale = next(each for each in await facts(writer, AuditHeir) if each.node == "n3")
        await look(two)
        await tell(late, stale, id_="late", node="n1", scope="n3")
        await three._signer.show(log)
        assert (await verified(writer, trusted)).findings == ()


async def test_a_node_that_has_the_key_and_no_duty_names_the_one_that_has_the_duty(tmp_path: Path) -> None:
    """Nobody was named when the first one died; it comes back, and another is on duty by then."""
    async with nats_in(tmp_path) as server:
        writer = await server.connect("executor")
        async with signed_by(server, tmp_path / "one", "n1") as first:
            await first.has_proven(await write(writer, 5))
            trusted = key_in(tmp_path / "one")
        async with auditing(server, tmp_path / "two", node="n2") as second:
            last = await write(writer, 5, name="more")
            await until(lambda: "`cloche nodes lost n1`" in second.part._auditor.trouble)
            await second.look()
            await look(await standing_by(server, tmp_path / "one", "n1"))
            await second.has_proven(last)
            assert (await second.state()).troubles == ()
        assert (await verified(writer, trusted)).findings == ()


async def test_the_key_of_a_node_that_is_lost_is_replaced_as_a_lost_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with nats_in(tmp_path, nodes=("n1", "n2")) as server:
        writer = await server.connect("executor")
        async with signed_by(server, tmp_path / "one", "n1") as first:
            await first.has_proven(await write(writer, 5))
            trusted = key_in(tmp_path / "one")
        async with auditing(server, tmp_path / "two", node="n2") as second:
            last = await write(writer, 5, name="more")
            await until(second.part._auditor.begun.is_set)
            await lose(server, "n1")
            await second.has_proven(last)
        (rotated,) = await facts(writer, AuditRotated)
        assert (rotated.key, rotated.signature) == (trusted, "")
        assert f"{trusted} that signed the log is lost" in caplog.text
        # Only the word of who owns it ties the new key to the old one.
        assert {each.fault for each in (await verified(writer, trusted)).findings} == {"unknown_key"}
        assert (await verified(writer, trusted, rotated.next)).findings == ()
        # And who is lost is nobody's heir until it is back.
        returned = await standing_by(server, tmp_path / "one", "n1")
        await look(returned, await standing_by(server, tmp_path / "two", "n2"))
        assert [each.node for each in await facts(writer, AuditStandby)] == ["n1"]
        assert await facts(writer, AuditHeir) == []
