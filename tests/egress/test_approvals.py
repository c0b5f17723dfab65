"""Asking people: one question a host, on the log before anybody waits; answers that outlive every death."""

import asyncio
import datetime
import os
import signal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from contracts import approvals as fold
from contracts import codec, subjects
from contracts.approvals import MOST_ANSWERS, Approvals
from contracts.commands.network import ApproveNetwork, RejectNetwork
from contracts.errors import Invalid, SandboxInvalidState, SandboxNotFound
from contracts.events.network import NetworkApproved, NetworkAsked, NetworkRejected
from contracts.message import Command, Fact
from contracts.spec import Network, UnknownHost
from contracts.state import Sequenced
from contracts.state import fold as fold_state
from infra import clock
from infra.bus import reader
from infra.proxy.port import Refused
from services.cli.taken_back import approved_of
from services.egress import answering
from services.egress.questions import MOST_PENDING
from tests.contracts.properties import calm
from tests.egress.gates_rig import Rig, gates_in, wanted

ASKING = Network(allowed_hosts=("good.test",), unknown=UnknownHost.ASK)
NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
MINUTE = datetime.timedelta(minutes=1)


async def approved(rig: Rig, *, remember: bool = False) -> str:
    """A request for `new.test` that waited, and was let through. Returns the approval."""
    waiting = asyncio.create_task(rig.gate.ask(wanted("new.test")))
    (asked,) = await rig.asked()
    await rig.answer(ApproveNetwork(approval=asked.approval, remember=remember))
    (await waiting).end(status=200, sent=1, received=1, error=None)
    return asked.approval


async def test_an_unknown_host_waits_until_somebody_approves_it(tmp_path: Path) -> None:
    async with gates_in(tmp_path, ASKING) as rig:
        waiting = [asyncio.create_task(rig.gate.ask(wanted("new.test"))) for _ in range(5)]
        (asked,) = await rig.asked()
        assert (asked.host, asked.port, asked.method) == ("new.test", 443, "GET")
        assert not any(task.done() for task in waiting)
        await rig.answer(ApproveNetwork(approval=asked.approval, reason="fine"))
        for passage in await asyncio.gather(*waiting):
            assert passage.addresses == ("127.7.0.2",)
            passage.end(status=200, sent=0, received=0, error=None)
        # Only this host, and only this port.
        other = asyncio.create_task(rig.gate.ask(wanted("new.test", 80)))
        assert [each.port for each in await rig.asked(2)] == [443, 80]
        other.cancel()
        facts = [fact for fact in await rig.facts() if isinstance(fact, NetworkApproved)]
        assert [(fact.host, fact.reason, fact.by, fact.until is None) for fact in facts] == [
            ("new.test", "fine", "client", False)
        ]


async def test_a_rejected_host_is_denied_and_a_client_that_tries_again_does_not_ask_again_at_once(
    tmp_path: Path,
) -> None:
    async with gates_in(tmp_path, ASKING) as rig:
        waiting = asyncio.create_task(rig.gate.ask(wanted("new.test")))
        (asked,) = await rig.asked()
        await rig.answer(RejectNetwork(approval=asked.approval, reason="no"))
        with pytest.raises(Refused, match=r"rejected.*cloche net sb --allow new\.test"):
            await waiting
        with pytest.raises(Refused, match="rejected"):
            await rig.gate.ask(wanted("new.test"))
        await rig.until("denied")
        assert len([fact for fact in await rig.facts() if isinstance(fact, NetworkAsked)]) == 1


async def test_a_question_that_nobody_answers_expires_as_a_rejection(tmp_path: Path) -> None:
    async with gates_in(tmp_path, replace(ASKING, ask_timeout_ms=1000)) as rig:
        with pytest.raises(Refused, match="nobody approved it in time"):
            await rig.gate.ask(wanted("new.test"))
        await rig.until("rejected")
        (rejected,) = [fact for fact in await rig.facts() if isinstance(fact, NetworkRejected)]
        assert rejected.expired
        with pytest.raises(Invalid, match="never asked, or has expired"):
            await rig.answer(ApproveNetwork(approval=rejected.approval))


@pytest.mark.parametrize("jump_s", [3600, -3600])
async def test_a_question_waits_its_time_though_the_clock_is_set_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jump_s: float
) -> None:
    wall = clock.now
    async with gates_in(tmp_path, replace(ASKING, ask_timeout_ms=600_000)) as rig:
        waiting = asyncio.create_task(rig.gate.ask(wanted("new.test")))
        (asked,) = await rig.asked()
        monkeypatch.setattr(clock, "now", lambda: wall() + datetime.timedelta(seconds=jump_s))
        # Whoever else asks for it asks the same, and everybody looks at the time again.
        again = asyncio.create_task(rig.gate.ask(wanted("new.test")))
        other = asyncio.create_task(rig.gate.ask(wanted("new.test", 80)))
        assert [each.port for each in await rig.asked(2)] == [443, 80]
        await rig.answer(ApproveNetwork(approval=asked.approval))
        for passage in await asyncio.gather(waiting, again):
            passage.end(status=200, sent=0, received=0, error=None)
        other.cancel()
        assert not [fact for fact in await rig.facts() if isinstance(fact, NetworkRejected)]


async def test_a_question_expires_in_time_though_the_clock_is_set_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wall = clock.now
    async with gates_in(tmp_path, replace(ASKING, ask_timeout_ms=1000)) as rig:
        waiting = asyncio.create_task(rig.gate.ask(wanted("new.test")))
        await rig.asked()
        monkeypatch.setattr(clock, "now", lambda: wall() - datetime.timedelta(hours=1))
        with pytest.raises(Refused, match="nobody approved it in time"):
            await waiting
        async with asyncio.timeout(30):
            await rig.until("rejected")


async def test_an_approval_that_was_given_while_egress_was_dead_counts_at_its_next_start(tmp_path: Path) -> None:
    async with gates_in(tmp_path, replace(ASKING, ask_timeout_ms=1000)) as rig:
        waiting = asyncio.create_task(rig.gate.ask(wanted("new.test")))
        (asked,) = await rig.asked()
        waiting.cancel()
        await rig.die()
        given = clock.now()
        # It comes late, and was given in time.
        async with asyncio.timeout(30):
            while clock.now() <= asked.expires_at:
                await asyncio.sleep(0.05)
        await rig.start()
        rig.gates.changed(rig.state)
        await rig.answer(ApproveNetwork(approval=asked.approval), time=given)
        passage = await rig.gate.ask(wanted("new.test"))
        passage.end(status=200, sent=0, received=0, error=None)
        assert len([fact for fact in await rig.facts() if isinstance(fact, NetworkAsked)]) == 1


async def test_an_answer_may_say_any_time_at_all(tmp_path: Path) -> None:
    earliest = datetime.datetime.min.replace(tzinfo=datetime.timezone(datetime.timedelta(hours=14)))
    async with gates_in(tmp_path, ASKING) as rig:
        waiting = asyncio.create_task(rig.gate.ask(wanted("new.test")))
        (asked,) = await rig.asked()
        await rig.answer(ApproveNetwork(approval=asked.approval), time=earliest)
        (await waiting).end(status=200, sent=0, received=0, error=None)


async def test_questions_and_what_is_remembered_outlive_a_death(tmp_path: Path) -> None:
    async with gates_in(tmp_path, ASKING) as rig:
        await approved(rig, remember=True)
        waiting = asyncio.create_task(rig.gate.ask(wanted("good.test", 22)))
        _, second = await rig.asked(2)
        waiting.cancel()
        await rig.die()
        await rig.start()
        again = asyncio.create_task(rig.gate.ask(wanted("good.test", 22)))
        (await rig.gate.ask(wanted("new.test"))).end(status=200, sent=0, received=0, error=None)
        await rig.answer(ApproveNetwork(approval=second.approval))
        (await again).end(status=200, sent=0, received=0, error=None)
        assert len([fact for fact in await rig.facts() if isinstance(fact, NetworkAsked)]) == 2


async def test_the_same_order_twice_is_one_answer_and_wrong_ones_are_refused(tmp_path: Path) -> None:
    async with gates_in(tmp_path, ASKING) as rig:
        waiting = asyncio.create_task(rig.gate.ask(wanted("new.test")))
        (asked,) = await rig.asked()
        for _ in range(2):
            await rig.answer(ApproveNetwork(approval=asked.approval), id="once")
        (await waiting).end(status=200, sent=0, received=0, error=None)
        assert len([fact for fact in await rig.facts() if isinstance(fact, NetworkApproved)]) == 1
        with pytest.raises(Invalid, match="was approved already"):
            await rig.answer(ApproveNetwork(approval=asked.approval))
        with pytest.raises(Invalid, match="never asked"):
            await rig.answer(RejectNetwork(approval="ask-nothing"))
        order = codec.encode(Command(id="c", type="network.approve", data=ApproveNetwork(approval="ask-1")))
        with pytest.raises(SandboxNotFound):
            await rig.gates.handle("cloche.cmd.local.nobody.network.approve", order)


async def test_taking_an_approval_back_cuts_what_rests_on_it(tmp_path: Path) -> None:
    async with gates_in(tmp_path, ASKING) as rig:
        approval = await approved(rig, remember=True)
        cut: list[str] = []
        passage = await rig.gate.ask(wanted("new.test"))
        passage.on_cut(cut.append)
        allowed = await rig.gate.ask(wanted("good.test"))
        allowed.on_cut(cut.append)
        await rig.answer(RejectNetwork(approval=approval, remember=True))
        assert cut == ["the policy has changed"]
        passage.end(status=None, sent=5, received=7, error="reset")
        allowed.end(status=200, sent=0, received=0, error=None)
        with pytest.raises(Refused, match="rejected"):
            await rig.gate.ask(wanted("new.test"))
        await rig.until("batch")
        assert [each.error for each in await rig.requests()][1:] == ["the policy has changed", None]


async def test_a_rejection_cuts_what_rests_on_an_approval_that_has_run_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answering, "GRANTED", datetime.timedelta(seconds=1))
    async with gates_in(tmp_path, ASKING) as rig:
        cut: list[str] = []
        approvals: list[str] = []
        for number, (host, port) in enumerate((("new.test", 443), ("good.test", 22)), 1):
            waiting = asyncio.create_task(rig.gate.ask(wanted(host, port)))
            approvals.append((await rig.asked(number))[-1].approval)
            await rig.answer(ApproveNetwork(approval=approvals[-1]))
            (await waiting).on_cut(lambda _, host=host: cut.append(host))  # type: ignore[misc]
        until = max(each.until for each in await rig.facts() if isinstance(each, NetworkApproved) and each.until)
        async with asyncio.timeout(30):
            while clock.now() <= until:
                await asyncio.sleep(0.05)
        again = asyncio.create_task(rig.gate.ask(wanted("new.test")))
        second = (await rig.asked(3))[-1].approval
        assert cut == []
        await rig.answer(RejectNetwork(approval=second))
        assert cut == ["new.test"]
        with pytest.raises(Refused, match="rejected"):
            await again
        # The answers that are kept know nothing of this one any more.
        await rig.answer(RejectNetwork(approval=approvals[1]))
        assert cut == ["new.test", "good.test"]
        with pytest.raises(Invalid, match="never asked"):
            await rig.answer(ApproveNetwork(approval=approvals[0]))


async def test_an_approval_of_an_earlier_life_can_be_taken_back_after_it_has_run_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answering, "GRANTED", datetime.timedelta(milliseconds=1))
    async with gates_in(tmp_path, ASKING) as rig:
        asking = [asyncio.create_task(rig.gate.ask(wanted("new.test", port))) for port in (443, 80)]
        first, second = await rig.asked(2)
        for each in (first, second):
            await rig.answer(ApproveNetwork(approval=each.approval))
        await asyncio.gather(*asking, return_exceptions=True)
        await rig.die()
        await rig.start()
        await rig.answer(RejectNetwork(approval=first.approval))
        assert [each.approval for each in await rig.facts() if isinstance(each, NetworkRejected)] == [first.approval]


async def test_questions_do_not_pile_up_while_the_log_cannot_be_written(tmp_path: Path) -> None:
    async with gates_in(tmp_path, ASKING) as rig:
        gate = rig.gate
        waiting = [asyncio.create_task(gate.ask(wanted("new.test")))]
        await rig.asked()
        os.kill(rig.server.embedded.pid, signal.SIGSTOP)
        try:
            waiting += [asyncio.create_task(gate.ask(wanted(f"h{n}.test"))) for n in range(3 * MOST_PENDING)]
            ended, going = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            while len(ended) <= 2 * MOST_PENDING:
                more, going = await asyncio.wait(going, return_when=asyncio.FIRST_COMPLETED)
                ended |= more
            assert {str(each.exception()) for each in ended} == {f"{MOST_PENDING} questions wait for an answer already"}
            assert len(gate._questions._asking) == MOST_PENDING - 1
            for task in going:
                task.cancel()
        finally:
            os.kill(rig.server.embedded.pid, signal.SIGCONT)
        assert len(await rig.asked(MOST_PENDING)) == MOST_PENDING
        await asyncio.gather(*waiting, return_exceptions=True)


async def test_a_change_of_the_policy_releases_and_refuses_what_waits(tmp_path: Path) -> None:
    async with gates_in(tmp_path, ASKING) as rig:
        waiting = asyncio.create_task(rig.gate.ask(wanted("new.test")))
        await rig.asked()
        await rig.change(replace(ASKING, allowed_hosts=("new.test",)))
        (await waiting).end(status=200, sent=0, received=0, error=None)
        waiting = asyncio.create_task(rig.gate.ask(wanted("good.test")))
        await rig.asked(2)
        await rig.change(Network(allowed_hosts=()))
        with pytest.raises(Refused, match="the host is not allowed"):
            await waiting


async def test_a_sandbox_cannot_ask_without_end_nor_for_what_no_answer_could_allow(tmp_path: Path) -> None:
    async with gates_in(tmp_path, ASKING) as rig:
        with pytest.raises(Refused, match="it leads to the address of a cloud's metadata"):
            await rig.gate.ask(wanted("169.254.169.254", 80))
        waiting = [asyncio.create_task(rig.gate.ask(wanted(f"h{n}.test"))) for n in range(MOST_PENDING)]
        asked = await rig.asked(MOST_PENDING)
        with pytest.raises(Refused, match="32 questions wait"):
            await rig.gate.ask(wanted("onemore.test"))
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        assert {each.host for each in asked} == {f"h{n}.test" for n in range(MOST_PENDING)}


async def test_what_was_approved_by_name_is_still_refused_by_address(tmp_path: Path) -> None:
    async with gates_in(tmp_path, ASKING) as rig:
        waiting = asyncio.create_task(rig.gate.ask(wanted("meta.test")))
        (asked,) = await rig.asked()
        await rig.answer(ApproveNetwork(approval=asked.approval, remember=True))
        with pytest.raises(Refused, match="metadata"):
            await waiting


async def test_whoever_asks_for_the_state_sees_what_waits(tmp_path: Path) -> None:
    async with gates_in(tmp_path, ASKING) as rig:
        waiting = asyncio.create_task(rig.gate.ask(wanted("new.test")))
        (asked,) = await rig.asked()
        entries = reader.read(rig.bus, subjects.events_of("sb"), 1, follow=False)
        state = fold_state([Sequenced(entry.seq, codec.decode_head(entry.data)) async for entry in entries])
        assert state is not None
        (pending,) = state.approvals.pending
        assert (pending.approval, pending.host, pending.expires_at) == (asked.approval, "new.test", asked.expires_at)
        waiting.cancel()


async def test_an_answer_on_another_node_or_for_what_is_gone_is_refused(tmp_path: Path) -> None:
    async with gates_in(tmp_path, ASKING) as rig:
        await rig.create(ASKING, "far", node="elsewhere")
        order = codec.encode(Command(id="c", type="network.approve", data=ApproveNetwork(approval="ask-1")))
        with pytest.raises(SandboxInvalidState, match="belongs to node"):
            await rig.gates.handle("cloche.cmd.local.far.network.approve", order)


FACTS = st.sampled_from(
    [
        *(
            NetworkAsked(approval=f"a{n}", host=f"h{n}", port=1, method="GET", expires_at=NOW + MINUTE)
            for n in range(3)
        ),
        *(NetworkApproved(approval=f"a{n}", host=f"h{n}", port=1, until=NOW + MINUTE) for n in range(3)),
        *(NetworkRejected(approval=f"a{n}", host=f"h{n}", port=1, remember=True) for n in range(3)),
        *(NetworkRejected(approval=f"a{n}", host=f"h{n}", port=1, expired=True) for n in range(3)),
    ]
)


@calm
@given(st.lists(FACTS, max_size=20))
def test_the_last_word_about_a_host_is_what_counts(facts: list[Fact]) -> None:
    found = Approvals()
    for fact in facts:
        found = fold.apply(found, fact, NOW)
    for number in range(3):
        about = [fact for fact in facts if getattr(fact, "approval", "") == f"a{number}"]
        answers = [
            fact
            for fact in about
            if isinstance(fact, NetworkApproved) or (isinstance(fact, NetworkRejected) and not fact.expired)
        ]
        answer = found.answer_for(f"h{number}", 1, NOW)
        assert (answer is None) == (not answers)
        assert answer is None or answer.allowed == isinstance(answers[-1], NetworkApproved)
        waits = bool(about) and isinstance(about[-1], NetworkAsked)
        assert (found.asked(f"a{number}") is not None) == waits
    later = NOW + 2 * MINUTE
    assert all(each.until is None for each in found.answers if each.holds(later))


def test_a_host_that_is_denied_has_all_its_approvals_taken_back_also_those_that_have_run_out() -> None:
    facts: list[Fact | None] = [
        NetworkApproved(approval="a1", host="x.org", port=443, until=NOW),
        NetworkApproved(approval="a2", host="x.org", port=443, until=NOW + MINUTE),
        NetworkApproved(approval="a3", host="x.org", port=22, until=NOW),
        NetworkRejected(approval="a4", host="x.org", port=22, expired=True),
        NetworkApproved(approval="a5", host="a.x.org", port=443, remember=True),
        NetworkApproved(approval="a6", host="y.org", port=443),
        NetworkRejected(approval="a6", host="y.org", port=443),
        NetworkApproved(approval="a7", host="badx.org", port=443),
        None,
    ]
    assert approved_of(["x.org", "y.org"], facts) == ["a2", "a3"]
    assert approved_of(["*.x.org"], facts) == ["a5"]


def test_answers_are_bounded() -> None:
    found = Approvals()
    for number in range(MOST_ANSWERS + 10):
        found = fold.apply(found, NetworkApproved(approval=f"a{number}", host="h", port=number + 1), NOW)
    assert len(found.answers) == MOST_ANSWERS
    assert found.answer_for("h", MOST_ANSWERS + 10, NOW) is not None
    assert found.answer_for("h", 1, NOW) is None
