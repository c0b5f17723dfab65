"""The guardian as a process, on a real server: what it tells, what it asks for, and what it survives."""

import asyncio
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from contracts.events.guardian import GuardianIntervention, GuardianObserved
from contracts.events.sandbox import SandboxRemoved, SandboxStopped
from contracts.guardian import Guardian, NoProgress, Step
from infra.bus import reader
from infra.journal import Journal
from services.guardian import loop
from services.guardian.engine import Engine, bind, filters
from services.guardian.handlers import Teller, identity, order_id
from services.guardian.loop import Patrol
from services.guardian.marks import Mark, Marks
from services.guardian.moments import milliseconds
from services.guardian.past import past
from services.guardian.watch import LATE
from tests.bus.servers import until
from tests.guardian import stories
from tests.guardian.rig import Rig, Told, configure, rig_in
from tests.guardian.story import RUN, Story


def words(told: list[Told]) -> list[tuple[str, str]]:
    return [(type(each.fact).__name__, each.fact.rule) for each in told]


def danger(number: int, sandbox: str = "sb-1") -> Story:
    story = Story(sandbox).begin().run()
    for each in range(number):
        story.use("Bash", command=f"echo {each}; rm -rf /")
    return story


async def test_what_is_found_is_told_with_its_evidence(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        await rig.service.start()
        last = await rig.play(danger(1))
        (told,) = await rig.hears(1)
        assert words([told]) == [("GuardianObserved", "dangerous_command")]
        assert (told.fact.evidence, told.fact.run, told.fact.step) == ((last,), RUN, "observe")
        assert await rig.orders() == []


@pytest.mark.parametrize(
    ("step", "tag", "says"),
    [
        ("guidance", "agent.guidance", b"[GUARDIAN] removes the root"),
        ("interrupt", "agent.interrupt", b"guardian: dangerous_command: removes the root"),
        ("pause", "agent.pause", b'"run":"run-1"'),
        ("stop", "sandbox.stop", b"guardian: dangerous_command: removes the root"),
    ],
)
async def test_a_step_is_one_command_to_the_sandboxs_node_and_one_event(
    tmp_path: Path, step: str, tag: str, says: bytes
) -> None:
    async with rig_in(tmp_path, dangerous_command={"step": step}) as rig:
        await rig.service.start()
        await rig.play(danger(1))
        (told,) = await rig.hears(1)
        ((subject, order),) = await rig.orders()
        assert isinstance(told.fact, GuardianIntervention)
        assert (told.fact.step, told.fact.command) == (step, order.id)
        assert (subject, order.type) == (f"cloche.cmd.local.sb-1.{tag}", tag)
        assert says in bytes(order.data)
        assert order.source == "guardian/local"


async def test_what_goes_on_after_a_step_gets_a_further_one(tmp_path: Path) -> None:
    settings = {"step": "guidance", "up_to": "stop", "cooldown_s": 0}
    async with rig_in(tmp_path, dangerous_command=settings) as rig:
        await rig.service.start()
        story = Story().begin().run()
        for _ in range(5):
            story.use("Bash", command="rm -rf /")
        await rig.play(story)
        told = await rig.hears(5)
        assert [each.fact.step for each in told] == ["guidance", "interrupt", "pause", "stop", "stop"]
        kinds_of_word = [type(each.fact).__name__.removeprefix("Guardian") for each in told]
        assert kinds_of_word == ["Intervention", "Escalated", "Escalated", "Escalated", "Intervention"]
        kinds = [order.type for _, order in await rig.orders()]
        assert kinds == ["agent.guidance", "agent.interrupt", "agent.pause", "sandbox.stop", "sandbox.stop"]


async def test_in_shadow_the_step_is_told_and_not_taken(tmp_path: Path) -> None:
    async with rig_in(tmp_path, mode="shadow", dangerous_command={"step": "stop"}) as rig:
        await rig.service.start()
        await rig.play(danger(1))
        (told,) = await rig.hears(1)
        assert isinstance(told.fact, GuardianObserved)
        assert (told.fact.step, told.fact.held) == ("stop", "shadow")
        assert await rig.orders() == []


async def test_when_it_is_off_nothing_is_told(tmp_path: Path) -> None:
    async with rig_in(tmp_path, mode="off") as rig:
        await rig.service.start()
        await rig.play(danger(1))
        await rig.service.kill()
        assert await rig.told() == []
        assert await rig.marks() == []


async def test_nobody_is_guided_who_is_not_there(tmp_path: Path) -> None:
    async with rig_in(tmp_path, dangerous_command={"step": "guidance"}) as rig:
        await rig.service.start()
        await rig.play(Story().begin().command("rm", "-rf", "/"))
        (told,) = await rig.hears(1)
        assert isinstance(told.fact, GuardianObserved)
        assert (told.fact.step, told.fact.held) == ("guidance", "no run is open")
        assert await rig.orders() == []


async def test_a_sandbox_of_another_node_is_left_to_its_own_guardian(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        await rig.service.start()
        await rig.play(Story("elsewhere", node="other").begin().command("rm", "-rf", "/"))
        await rig.is_idle("sb")
        assert await rig.told("elsewhere") == []


async def test_what_is_no_event_stands_in_the_way_of_nothing(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        await rig.service.start()
        for raw in (b"", b"{}", b"\xff\xfe", b"[" * 50_000, b'{"type":"agent.started"}'):
            await rig.spoil("sb-1", raw)
        await rig.play(danger(1))
        assert words(await rig.hears(1)) == [("GuardianObserved", "dangerous_command")]


async def test_silence_is_told_while_it_lasts(tmp_path: Path) -> None:
    async with rig_in(tmp_path, no_progress={"after_s": 1}) as rig:
        await rig.service.start()
        last = await rig.play(Story().begin().run().said())
        (told, *_) = await rig.hears(1)
        assert (told.fact.rule, told.fact.evidence) == ("no_progress", (last,))


async def test_a_guardian_that_hears_nothing_does_not_take_that_for_silence(tmp_path: Path) -> None:
    settings = Guardian(no_progress=NoProgress(after_s=1))
    async with rig_in(tmp_path) as rig:
        bus = await rig.server.connect("guardian")
        journal = Journal(bus, service="guardian", node="local")
        await rig.play(Story("talks").begin().run())
        head = await rig.play(Story("sits").begin().run())
        patrol = Patrol(
            bus,
            Engine(bind(settings), learns=True),
            Teller(bus, journal, settings.mode, set()),
            Marks(bus, journal, settings),
            Mark(0, 0, ""),
        )
        await patrol.catch_up(head)
        # It knows the time and not what happens: nobody follows the log.
        await rig.play(Story("talks").begin().run().said(), 4)
        keeping = asyncio.create_task(patrol.keep_time())
        try:
            await rig.hears(1, "sits")
        finally:
            keeping.cancel()
        assert await rig.told("talks") == []


async def test_what_was_told_before_a_restart_cools_down_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "MARK_LEAST", 1)
    async with rig_in(tmp_path, dangerous_command={"cooldown_s": 600}) as rig:
        story = danger(1)
        await _with_restarts(rig, story)
        await rig.play(story.use("Bash", command="echo 0; rm -rf /"), len(story.events) - 1)
        await rig.is_idle("sb")
        assert len(await rig.told("sb-1")) == 1


async def test_a_further_step_is_taken_also_after_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "MARK_LEAST", 1)
    settings = {"step": "guidance", "up_to": "stop", "cooldown_s": 0}
    async with rig_in(tmp_path, dangerous_command=settings) as rig:
        story = danger(1)
        await _with_restarts(rig, story)
        await rig.play(story.use("Bash", command="echo 0; rm -rf /"), len(story.events) - 1)
        told = await rig.hears(2, "sb-1")
        assert [each.fact.step for each in told] == ["guidance", "interrupt"]
        assert [each.fact.count for each in told] == [1, 2]


async def _with_restarts(rig: Rig, story: Story) -> None:
    """Told by one life, marked as judged by the second, known to the third only from its own words."""
    await rig.service.start()
    await rig.play(story)
    await rig.hears(1, story.sandbox)
    await rig.service.kill()
    await rig.service.start()
    await until(lambda: _is_marked(rig))
    await rig.service.kill()
    await rig.service.start()


async def _is_marked(rig: Rig) -> bool:
    told = await rig.told()
    return (await rig.marks())[-1] >= told[-1].sequence


async def test_after_a_kill_nothing_is_told_twice_and_nothing_is_missed(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"no_progress": {"after_s": 1}, "repeated_call": {"times": 3, "step": "guidance"}}
    async with rig_in(tmp_path, process=True, **settings) as rig:
        story = Story().begin().run()
        written = 0
        for each in range(3):
            await rig.service.start()
            story.call("Bash", command=f"echo {each}; rm -rf /")
            for _ in range(3):
                story.call("Bash", "no", ok=False, command=f"make {each}")
            await rig.play(story, written)
            written = len(story.events)
            if each != 1:
                await rig.hears(2 + 3 * each, "sb-1")
            await rig.service.kill()
            # Nobody is there to see this, until the next one comes.
            story.call("Write", file_path=f"/etc/{each}/x")
            await rig.play(story, written)
            written = len(story.events)
        await rig.service.start()
        await until(lambda: _is_told(rig, "no_progress"))
        await rig.play(story.finished(), written)
        await rig.is_idle("sb")
        told = await rig.told("sb-1")
        expected = [each for each in await rig.over_history(_guardian(settings)) if each.sandbox == "sb-1"]
        assert sorted(_plain(each) for each in told) == sorted(
            (each.decision.finding.rule, each.decision.finding.key, each.decision.finding.evidence, each.decision.step)
            for each in expected
        )
        assert len({each.id for each in told}) == len(told)
        assert {each.fact.rule for each in told} == {
            "dangerous_command",
            "repeated_call",
            "outside_paths",
            "no_progress",
        }
        ids = [order.id for _, order in await rig.orders()]
        assert len(ids) == len(set(ids))


async def _is_told(rig: Rig, rule: str) -> bool:
    return rule in [each.fact.rule for each in await rig.told()]


def _plain(told: Told) -> tuple[str, str, tuple[int, ...], Step]:
    return told.fact.rule, told.fact.key, told.fact.evidence, Step(told.fact.step)


def _guardian(settings: dict[str, Any]) -> Guardian:
    return msgspec.convert(settings, Guardian)


@pytest.mark.parametrize("name", ["repeated_call", "error_storm", "outside_paths", "an_approval_pending_overnight"])
async def test_history_says_what_was_told_live(tmp_path: Path, name: str) -> None:
    story = stories.FAULTS[name][0]() if name in stories.FAULTS else stories.HONEST[name]()
    settings: dict[str, Any] = {"no_progress": {"after_s": 1}, "repeated_call": {"up_to": "stop", "cooldown_s": 0}}
    async with rig_in(tmp_path, **settings) as rig:
        await rig.service.start()
        await rig.play(story)
        await rig.is_idle("sb")
        live = [(*_plain(each), each.fact.at) for each in await rig.told("sb-1")]
        past = [each.decision for each in await rig.over_history(_guardian(settings)) if each.sandbox == "sb-1"]
        assert [each[:4] for each in live] == [
            (each.finding.rule, each.finding.key, each.finding.evidence, each.step) for each in past
        ]
        assert [milliseconds(at) for *_, at in live if at] == [each.at_ms for each in past]
        assert bool(live) == (name in stories.FAULTS)


async def test_what_is_read_subject_by_subject_is_the_log_in_order(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        for name in ("one", "two"):
            head = await rig.play(Story(name).begin().run().call("Read", "x").ran("true").changed("/workspace/a"))
        wanted = filters(Engine(bind(Guardian()), learns=True).wanted)
        for start, end in ((1, head), (4, head - 3), (head, head), (head + 1, head + 9)):
            read = reader.read(rig.admin, wanted, start, follow=False, end=end)
            assert [each async for each in past(rig.admin, wanted, start, end)] == [each async for each in read]


async def test_the_past_before_the_first_start_is_not_judged_but_known(tmp_path: Path) -> None:
    async with rig_in(tmp_path, repeated_call={"times": 4}) as rig:
        story = Story().begin().run().use("Bash", command="rm -rf /")
        for _ in range(3):
            story.call("Read", "x", path="a")
        await rig.play(story)
        begun = len(story.events)
        await rig.service.start()
        await rig.play(story.call("Read", "x", path="a"), begun)
        assert words(await rig.hears(1)) == [("GuardianObserved", "repeated_call")]


async def test_other_settings_judge_what_comes_and_not_what_was(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        await rig.service.start()
        story = Story().begin().run().use("Bash", command="terraform destroy")
        await rig.play(story)
        await rig.is_idle("sb")
        await rig.service.kill()
        configure(rig.server.data, {"dangerous_command": {"also": {"destroys": "terraform destroy"}}})
        await rig.service.start()
        begun = len(story.events)
        last = await rig.play(story.use("Bash", command="terraform destroy"), begun)
        (told,) = await rig.hears(1, "sb-1")
        assert told.fact.evidence == (last,)
        assert len(await rig.marks()) == 2


async def test_what_is_over_when_the_guardian_comes_back_is_told_and_not_acted_on(tmp_path: Path) -> None:
    async with rig_in(tmp_path, dangerous_command={"step": "interrupt"}) as rig:
        await rig.service.start()
        await rig.is_idle("sb")
        orders = len(await rig.orders())
        await rig.service.kill()
        await rig.play(danger(1).finished())
        await rig.service.start()
        (told,) = await rig.hears(1, "sb-1")
        assert isinstance(told.fact, GuardianObserved)
        assert told.fact.held == "no run is open"
        assert len(await rig.orders()) == orders


async def test_a_dead_server_is_waited_for(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        await rig.service.start()
        await rig.play(danger(1))
        await rig.hears(1)
        await rig.server.kill_and_wait()
        await rig.play(danger(1, "sb-2"))
        assert len(await rig.hears(1, "sb-2")) == 1


async def test_of_all_that_a_guardian_missed_only_the_last_is_acted_on_and_by_the_first_step(tmp_path: Path) -> None:
    settings = {"step": "guidance", "up_to": "stop", "cooldown_s": 0}
    async with rig_in(tmp_path, dangerous_command=settings) as rig:
        await rig.service.start()
        story = Story().begin().run()
        await rig.play(story)
        await rig.is_idle("sb")
        await rig.service.kill()
        begun = len(story.events)
        for _ in range(3):
            story.use("Bash", command="rm -rf /")
        gone = Story("gone", node="other").begin().run().use("Bash", command="rm -rf /")
        await rig.play(gone.tell(SandboxRemoved(reason="asked")))
        last = await rig.play(story, begun)
        await rig.service.start()
        told = await rig.hears(3, "sb-1")
        assert [(each.fact.step, getattr(each.fact, "held", "")) for each in told] == [
            ("guidance", LATE),
            ("guidance", LATE),
            ("guidance", ""),
        ]
        assert told[-1].fact.evidence == (last,)
        assert [order.type for subject, order in await rig.orders() if ".sb-1." in subject] == ["agent.guidance"]
        await rig.play(story.use("Bash", command="rm -rf /"), len(story.events) - 1)
        assert (await rig.hears(4, "sb-1"))[-1].fact.step == "interrupt"
        assert await rig.told("gone") == []


async def test_a_sandbox_that_was_stopped_by_a_guardian_that_died_over_it_is_said_to_be(tmp_path: Path) -> None:
    async with rig_in(tmp_path, dangerous_command={"step": "stop"}) as rig:
        await rig.service.start()
        await rig.service.kill()
        await rig.play(danger(1))
        (found,) = await rig.over_history(_guardian({"dangerous_command": {"step": "stop"}}))
        order = order_id(identity("sb-1", found.decision))
        await rig.write("spawner", "sb-1", SandboxStopped(reason="guardian"), command=order)
        await rig.service.start()
        (told,) = await rig.hears(1, "sb-1")
        assert isinstance(told.fact, GuardianIntervention)
        assert (told.fact.step, told.fact.command) == ("stop", order)


async def test_what_shadow_would_have_done_is_not_gone_beyond_by_a_guardian_that_acts(tmp_path: Path) -> None:
    ladder = {"step": "guidance", "up_to": "stop", "cooldown_s": 0}
    async with rig_in(tmp_path, mode="shadow", dangerous_command=ladder) as rig:
        await rig.service.start()
        story = Story().begin().run()
        for _ in range(3):
            story.use("Bash", command="rm -rf /")
        await rig.play(story)
        told = await rig.hears(3, "sb-1")
        assert [each.fact.step for each in told] == ["guidance", "interrupt", "pause"]
        await rig.service.kill()
        configure(rig.server.data, {"mode": "live", "dangerous_command": ladder})
        await rig.service.start()
        await rig.play(story.use("Bash", command="rm -rf /"), len(story.events) - 1)
        assert (await rig.hears(4, "sb-1"))[-1].fact.step == "guidance"


async def test_what_happened_while_it_was_turned_off_stays_untold(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        await rig.service.start()
        await rig.is_idle("sb")
        await rig.service.kill()
        configure(rig.server.data, {"mode": "off"})
        await rig.service.start()
        await rig.play(danger(1))
        await rig.service.kill()
        configure(rig.server.data, {})
        await rig.service.start()
        await rig.is_idle("later")
        assert await rig.told("sb-1") == []


async def test_a_silence_is_not_told_for_what_it_was_before_anybody_watched(tmp_path: Path) -> None:
    async with rig_in(tmp_path, no_progress={"after_s": 1}) as rig:
        await rig.play(Story().begin().run())
        begun = time.monotonic()
        await until(lambda: _has_passed(begun + 1))
        await rig.service.start()
        await rig.service.kill()
        await rig.service.start()
        (told, *_) = await rig.hears(1)
        assert isinstance(told.fact, GuardianObserved)
        assert "no tool call for 1 s" not in told.fact.finding


async def _has_passed(moment: float) -> bool:
    return time.monotonic() > moment
