"""Given what happened to a sandbox: why it is in its state, in words, with the events behind each sentence."""

import datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.errors import Failure
from contracts.events import guardian, health, sandbox
from contracts.events.command import CommandLost, Totals
from contracts.message import Fact
from contracts.spec import Network, Resources, Restart, RestartPolicy, SandboxSpec
from services.cli.plot import Plot
from services.cli.story import Story
from services.cli.why import story_of, tell
from tests.unit.histories import DIED, HEAD, NEVER, NOW, Told, begun, death, history, letter, stopped, story


def todo(found: Story) -> list[str]:
    return [each.do for each in found.next]


def test_nothing_is_known_of_nobody() -> None:
    assert tell("sb", [], now=NOW, head=HEAD) is None


def test_one_that_was_started_is_running() -> None:
    found = story(*begun())
    assert found.headline.text == "is running: it was started, as command c-make asked"
    assert (found.headline.sequences, found.headline.asked_by) == ((12,), "c-make")
    (made,) = found.sentences
    assert made.text == "was made and started on node local as a local sandbox, as command c-make asked"
    assert made.sequences == (10, 11, 12)
    assert found.next == ()


def test_one_that_was_found_well_is_healthy_and_nothing_more_is_said_of_it() -> None:
    found = story(*begun(), health.HealthHealthy(reason="it answers"))
    assert found.headline.text.startswith("is running and healthy")
    assert found.headline.sequences == (12, 13)
    assert len(found.sentences) == 1


def test_one_that_is_not_well_says_why_and_then_that_it_is_well_again() -> None:
    ill = [*begun(), health.HealthHealthy(), health.HealthUnhealthy(reason="no answer")]
    found = story(*ill)
    assert found.headline.text == "is running, but not well: no answer"
    assert found.headline.sequences == (12, 14)
    assert "cloche recover sb" in todo(found)
    well = story(*ill, health.HealthHealthy(reason="it answers"))
    assert well.headline.text.startswith("is running and healthy")
    assert [each.text for each in well.sentences[1:]] == ["was not well: no answer", "was well again: it answers"]


def test_what_a_person_stopped_names_the_command_and_is_to_be_started() -> None:
    found = story(*begun(), stopped(reason="lunch"))
    assert found.headline.text == "is stopped, as command c-stop asked: lunch"
    assert (found.headline.sequences, todo(found)) == ((13,), ["cloche start sb"])


def test_what_is_paused_is_to_be_resumed() -> None:
    found = story(*begun(), Told(sandbox.SandboxPaused(), "c-pause"))
    assert found.headline.text == "is paused, as command c-pause asked"
    assert todo(found) == ["cloche resume sb"]


DEATHS = [
    (death(health.DeathCause.EXIT, exit_code=3), "its first process ended with code 3"),
    (death(health.DeathCause.OOM, signal=9), "it ran out of memory (it may have 4 GiB)"),
    (death(health.DeathCause.KILLED, signal=9), "its first process was killed by SIGKILL (signal 9)"),
    (death(health.DeathCause.KILLED, signal=63), "its first process was killed by signal 63"),
    (death(health.DeathCause.DISK), "it filled its disk (it may have 10 GiB)"),
    (death(health.DeathCause.ENGINE_LOST), "its engine was lost, and took it along"),
    (death(health.DeathCause.REBOOTED), "the machine was started again"),
    (death(health.DeathCause.UNKNOWN, looked_at=("the note",)), "it died, and nobody can say why"),
]


@pytest.mark.parametrize(("died", "words"), DEATHS, ids=[f"{died.cause}-{died.signal}" for died, _ in DEATHS])
def test_each_death_is_told_by_its_cause(died: health.HealthDied, words: str) -> None:
    found = story(*begun(NEVER), died, stopped(DIED, command="health-stop-1", reason="the sandbox died"))
    reason = "was not recovered, because its restart policy is `never`"
    assert found.headline.text == f"is stopped: {words}, and {reason}"
    assert found.headline.sequences == (13, 14)
    assert found.sentences[1].text.startswith(f"died: {words}: init ended")
    assert found.sentences[1].sequences == (13,)
    assert found.sentences[2].text == "was stopped, by the health monitor (command health-stop-1)"
    assert todo(found)[-3:][0] in ("cloche start sb", "cloche files rm sb PATH")


def test_an_unknown_death_says_what_was_looked_at() -> None:
    found = story(*begun(NEVER), death(health.DeathCause.UNKNOWN, looked_at=("the note", "the engine")))
    assert "looked at: the note, the engine" in found.sentences[-1].text


@pytest.mark.parametrize(
    ("spec", "died", "reason"),
    [
        (SandboxSpec(restart=Restart(max_attempts=0)), death(), "its restart policy allows no attempts"),
        (SandboxSpec(), death(health.DeathCause.DISK), "a full disk would be full again"),
        (
            SandboxSpec(),
            death(health.DeathCause.EXIT, exit_code=0),
            "it ended by itself with code 0, and its restart policy is `on_failure`",
        ),
        (SandboxSpec(), death(), "a stop was asked for instead"),
    ],
)
def test_it_is_said_why_a_death_was_left_at_that(spec: SandboxSpec, died: health.HealthDied, reason: str) -> None:
    found = story(*begun(spec), died, stopped(DIED, command="health-stop-1"))
    assert found.headline.text.endswith(f"and was not recovered, because {reason}")


def test_the_last_output_comes_with_the_death() -> None:
    found = story(*begun(NEVER), death(last_output="the end\n"))
    assert found.sentences[-1].last_output == "the end\n"


def test_more_memory_is_offered_to_what_ran_out_of_it() -> None:
    found = story(*begun(NEVER), death(health.DeathCause.OOM), stopped(DIED, command="health-stop-1"))
    assert todo(found) == ["cloche start sb", "cloche fork sb --at 99 --set resources.memory_mb=8192"]


def test_no_more_is_offered_than_there_may_be() -> None:
    spec = SandboxSpec(resources=Resources(memory_mb=32_768), restart=Restart(policy=RestartPolicy.NEVER))
    found = story(*begun(spec), death(health.DeathCause.OOM), stopped(DIED))
    assert todo(found) == ["cloche start sb"]


LIMITS = [
    ("timeout", 3_600_000.0, 3_600_900.0, "it had run for 1 h, and may run for 1 h", "resources.timeout_ms=7200000"),
    ("disk", 2.0**30, 1.5 * 2**30, "its workspace held 1.5 GiB, and may hold 1 GiB", "resources.disk_mb=20480"),
    ("idle", 60_000.0, 90_000.0, "nothing had happened in it for 90 s, and it is to be stopped after 1 min", "null"),
]


@pytest.mark.parametrize(("limit", "allowed", "used", "words", "raised"), LIMITS, ids=[each[0] for each in LIMITS])
def test_a_limit_is_told_with_what_was_used_and_how_to_raise_it(
    limit: str, allowed: float, used: float, words: str, raised: str
) -> None:
    exceeded = health.HealthLimitExceeded(limit=limit, allowed=allowed, used=used, action="stop")
    over = [*begun(SandboxSpec(idle_stop_ms=60_000)), exceeded]
    about = story(*over)
    assert about.headline.text == f"is about to be stopped: {words}"
    failure = Failure(code="SANDBOX_TIMEOUT", message="over", details={"limit": limit})
    found = story(*over, stopped(failure, command="health-stop-1"))
    assert found.headline.text == f"is stopped: {words}"
    assert (found.headline.sequences, found.sentences[1].sequences) == ((13, 14), (13,))
    assert raised in todo(found)[-1]
    ends = {"timeout": "may run for longer", "disk": "may have more", "idle": "is not stopped for doing nothing"}
    assert found.next[-1].why == f"the same files in a new sandbox that {ends[limit]}"


def test_a_death_that_waits_for_its_recovery_says_when() -> None:
    due = datetime.datetime(2026, 5, 1, 9, 0, 20, tzinfo=datetime.UTC)
    found = story(*begun(), death(action=health.DeathAction.RECOVER, due=due, signal=9))
    when = f"{due.astimezone():%H:%M:%S}"
    assert found.headline.text.endswith(f"(signal 9); its recovery is asked for at {when}")
    assert found.headline.text.startswith("is dead: ")
    assert found.headline.sequences == (12, 13)


def recovery(attempt: int, *, instance: str, restored: int | None = None) -> list[Fact | Told]:
    return [
        Told(sandbox.SandboxRecovering(attempt=attempt, reason="killed", node="local"), f"health-recover-{attempt}"),
        Told(
            sandbox.SandboxRecovered(attempt=attempt, node="local", instance=instance, restored_sequence=restored),
            f"health-recover-{attempt}",
        ),
    ]


def test_one_that_came_back_says_from_what_and_by_which_attempt() -> None:
    died = death(health.DeathCause.OOM, action=health.DeathAction.RECOVER)
    found = story(*begun(), died, *recovery(1, instance="i2"), health.HealthHealthy())
    assert found.headline.text == (
        "is running and healthy: it was recovered (attempt 1 of 3), after it ran out of memory (it may have 4 GiB)"
    )
    assert found.headline.sequences == (13, 14, 15, 16)
    assert found.sentences[-1].text == (
        "was recovered on node local, attempt 1 of 3: killed; its workspace was kept as it was"
    )
    assert found.sentences[-1].sequences == (14, 15)


def test_a_recovery_does_not_repeat_the_death_that_was_just_told() -> None:
    again = Told(sandbox.SandboxRecovering(attempt=1, reason="oom: init ended", node="local"), "health-recover-1")
    told = [*begun(), death(health.DeathCause.OOM, action=health.DeathAction.RECOVER)]
    assert story(*told, again).sentences[-1].text == "was to be recovered on node local, attempt 1 of 3"
    failed = Told(sandbox.SandboxRecovering(attempt=2, reason="attempt 1 failed: no room", node="local"))
    text = story(*told, again, failed).sentences[-1].text
    assert text == "was to be recovered on node local, attempt 2 of 3: attempt 1 failed: no room"


def test_one_that_a_person_brought_back_does_not_speak_of_an_old_death() -> None:
    died = death(action=health.DeathAction.STOP)
    found = story(*begun(NEVER), died, stopped(DIED), *recovery(0, instance="i2", restored=12))
    assert found.headline.text == "is running: it was recovered (as somebody asked)"
    assert found.headline.sequences == (15, 16)
    assert found.sentences[-1].text.endswith("its workspace is that of sequence 12")


def test_a_death_that_is_told_after_the_sandbox_came_back_is_not_of_this_life() -> None:
    found = story(*begun(), *recovery(0, instance="i2"), death(instance="i1"))
    assert found.headline.text.startswith("is running: it was recovered")


def test_one_that_is_being_recovered_says_why_and_for_how_long() -> None:
    died = death(action=health.DeathAction.RECOVER)
    found = story(*begun(), died, recovery(2, instance="i2")[0])
    assert found.headline.text == "has been in recovery for 26 s on node local (attempt 2 of 3): killed"
    assert found.headline.sequences == (13, 14)
    late = story(*begun(), died, recovery(2, instance="i2")[0], now=NOW + datetime.timedelta(hours=1))
    assert "cloche doctor" in todo(late)


def test_one_that_died_too_often_has_failed_and_can_be_recovered_by_hand() -> None:
    spent = Failure(code="SANDBOX_DIED", message="it died again after 3 attempts", details={"attempts": "3"})
    lives: list[Fact | Told] = []
    for attempt in (1, 2, 3):
        lives += [death(instance=f"i{attempt}", action=health.DeathAction.RECOVER)]
        lives += recovery(attempt, instance=f"i{attempt + 1}")
    last = death(instance="i4", action=health.DeathAction.RECOVER)
    found = story(*begun(), *lives, last, Told(sandbox.SandboxFailed(failure=spent), "health-recover-4"))
    assert found.headline.text == "has failed: it died again after 3 attempts (SANDBOX_DIED)"
    assert found.headline.sequences == (20, 22, 23)
    assert todo(found)[:2] == ["cloche logs sb", "cloche recover sb"]
    assert [each.text.partition(":")[0] for each in found.sentences].count("died") == 4


def test_one_that_could_not_be_made_says_what_was_in_the_way() -> None:
    failure = Failure(code="SANDBOX_CREATION_FAILED", message="no such image")
    found = story(begun()[0], Told(sandbox.SandboxFailed(failure=failure), "c-make"))
    assert found.headline.text == "could not be made: no such image (SANDBOX_CREATION_FAILED)"
    assert (found.headline.sequences, todo(found)) == ((11,), ["cloche doctor", "cloche create"])
    assert found.sentences[0].text.startswith("was to be made on node local")


def test_one_that_is_being_made_says_since_when() -> None:
    found = story(begun()[0])
    assert found.headline.text == "has been in the making for 30 s on node local, as command c-make asked"
    assert todo(story(begun()[0], now=NOW + datetime.timedelta(minutes=5)))[0] == "cloche doctor"


def test_what_is_removed_can_still_be_read_and_forked() -> None:
    found = story(*begun(), Told(sandbox.SandboxRemoved(reason="asked"), "c-rm"))
    assert found.headline.text == "is removed, as command c-rm asked; its record stays"
    assert todo(found)[:2] == ["cloche logs sb", "cloche files tree sb --at 99"]


def test_one_that_was_refused_was_never_made() -> None:
    found = story(letter("create", "memory: too small"))
    assert (found.status, found.headline.text) == (None, "was never made: memory: too small (INVALID)")
    assert (found.headline.sequences, found.headline.asked_by) == ((10,), "c-refused")


def test_orders_that_were_given_up_and_commands_that_were_lost_are_told() -> None:
    lost = CommandLost(exec="e-1", cause="sandbox died", detail="killed", totals=Totals())
    found = story(*begun(), letter("start", "it is running", "c-again"), Told(lost, "e-1"))
    assert [each.text for each in found.sentences[1:]] == [
        "had an order that was given up: sandbox.start: it is running (INVALID)",
        "lost the command e-1: sandbox died; killed",
    ]
    assert found.sentences[1].asked_by == "c-again"


def test_a_flood_of_refused_orders_hides_nothing_that_happened() -> None:
    found = story(*begun(), stopped(), *(letter("pause", f"no {number}") for number in range(50)))
    assert found.headline.text == "is stopped, as command c-stop asked"
    assert [each.text.partition(" ")[0] for each in found.sentences] == ["was", "was", *["had"] * 6]
    assert found.earlier == 44


def test_the_guardian_is_named_though_it_tells_of_its_step_after_the_stop() -> None:
    step = guardian.GuardianIntervention(
        rule="repeated_call", step="stop", text="the same call 9 times", evidence=(11,), command="g-1"
    )
    found = story(*begun(), stopped(command="g-1", reason="guardian: repeated_call"), Told(step, "g-1"))
    assert found.headline.text.startswith("is stopped, by the guardian's rule repeated_call")
    assert found.headline.sequences == (13, 14)


def test_neither_do_refused_orders_and_lost_commands_together() -> None:
    lost = [CommandLost(exec=f"e-{number}", cause="died", detail="", totals=Totals()) for number in range(50)]
    found = story(*begun(), stopped(), *(letter("pause", "no") for _ in range(50)), *lost)
    assert [each.sequences[0] for each in found.sentences[:2]] == [10, 13]


def test_one_that_nobody_has_looked_at_is_not_called_well_without_a_word() -> None:
    plot = Plot(12)
    for sequence, head in history(*begun(), health.HealthHealthy()):
        plot.feed(sequence, head)
    found = story_of("sb", plot, now=NOW, head=HEAD, unseen_since=NOW - datetime.timedelta(minutes=10))
    assert found is not None
    assert found.headline.text.startswith("is running and healthy: ")
    assert found.headline.text.endswith("; but nobody has seen it for 10 min, so that may be over")
    assert todo(found) == ["cloche doctor", "cloche recover sb --node NODE"]


def test_only_the_last_is_told_and_the_rest_is_counted() -> None:
    moves: list[Fact | Told] = [sandbox.SandboxPaused(), sandbox.SandboxResumed()] * 20
    found = story(*begun(), *moves, shown=3)
    assert [each.sequences for each in found.sentences] == [(50,), (51,), (52,)]
    assert found.earlier == 40
    assert found.headline.text == "is running: it was resumed, and no command asked for it"


def test_events_of_a_later_version_tell_nothing_and_do_no_harm() -> None:
    events = history(*begun(), sandbox.SandboxPaused())
    unknown = events[-1]._replace(head=msgspec.structs.replace(events[-1].head, type="sandbox.levitated"))
    found = tell("sb", [*events[:-1], unknown], now=NOW, head=HEAD)
    assert found is not None
    assert found.headline.text.startswith("is running")


def test_a_change_of_the_network_is_told_and_is_not_what_brought_it_to_its_state() -> None:
    changed = sandbox.SandboxNetworkChanged(network=Network(allowed_hosts=("example.org",)))
    found = story(*begun(), stopped(), Told(changed, "c-net"))
    assert found.headline.text == "is stopped, as command c-stop asked"
    text = "had its network changed, as command c-net asked: restricted, and may reach example.org"
    assert (found.sentences[-1].text, found.sentences[-1].sequences) == (text, (14,))


ANYTHING: list[Fact | Told] = [
    sandbox.SandboxNetworkChanged(network=Network()),
    *begun(),
    *begun(NEVER),
    sandbox.SandboxPaused(),
    sandbox.SandboxResumed(),
    stopped(),
    stopped(DIED, command="health-stop-1"),
    stopped(Failure(code="X", message="over", details={"limit": "disk"}), command="g-1"),
    Told(sandbox.SandboxRemoved(reason="asked"), "c-rm"),
    sandbox.SandboxFailed(failure=DIED),
    sandbox.SandboxSnapshotted(manifest="m", files=1, size=1),
    *recovery(0, instance="i2"),
    *recovery(1, instance="i1", restored=3),
    death(health.DeathCause.OOM),
    death(action=health.DeathAction.RECOVER, instance="i2"),
    health.HealthHealthy(),
    health.HealthUnhealthy(reason="ill"),
    health.HealthLimitExceeded(limit="disk", allowed=1, used=2, action="kill"),
    health.HealthLimitExceeded(limit="new", allowed=1, used=2, action="levitate"),
    guardian.GuardianEscalated(rule="r", step="stop", reason="why", evidence=(1,), command="g-1"),
    letter("create", "no"),
    letter("stop", "no"),
    CommandLost(exec="e", cause="c", detail="d", totals=Totals()),
]


@given(st.lists(st.sampled_from(ANYTHING), min_size=1, max_size=30), st.integers(1, 20))
def test_there_is_a_story_for_whatever_stands_in_the_log(told: list[Fact | Told], shown: int) -> None:
    events = history(*told)
    found = tell("sb", events, now=NOW, head=HEAD, shown=shown)
    known = {event.sequence for event in events}
    made = any(event.head.type == "sandbox.creating" for event in events)
    assert (found is not None) or not made
    for sentence in () if found is None else (found.headline, *found.sentences):
        assert sentence.text
        assert sentence.sequences
        assert set(sentence.sequences) <= known
    assert found is None or found.earlier >= 0
