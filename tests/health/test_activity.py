"""What counts as something happening in a sandbox, by the log."""

import datetime
from pathlib import Path

import pytest

from contracts.events.agent import AgentAttached, AgentCompleted, AgentDelivered, AgentStarted, AgentWaiting
from contracts.events.command import CommandStarted
from contracts.message import Fact
from contracts.registry import tag_of
from contracts.state import SandboxState
from contracts.streams import LOG_STREAM, Limits
from infra import clock
from infra.bus.connection import Bus
from infra.bus.provision import provision
from infra.embedded.users import FAMILIES
from infra.journal import Journal
from services.health_monitor.activity import Activity
from tests.bus.servers import Server, nats_in
from tests.contracts.histories import CREATED, CREATING, STARTED
from tests.contracts.samples import EVENT_SAMPLES

LONG_AGO = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
COUNTS = (
    "command.started", "command.output", "command.completed",
    "tool.invoked", "tool.returned",
    "file.created", "file.modified", "file.deleted", "file.moved", "file.batch",
    "agent.thinking", "agent.tool_use", "user.message",
)  # fmt: skip
DOES_NOT = ("file.ready", "file.manifest", "file.error", "health.healthy", "guardian.observed")


async def begun(server: Server) -> SandboxState:
    journal = Journal(await server.connect("spawner"), service="spawner", node="n1")
    for number, fact in enumerate([CREATING, CREATED, STARTED]):
        await journal.append(journal.write("sb", fact, id=f"sb.{number}", time=LONG_AGO))
    state = await journal.lifecycle("sb")
    assert state is not None
    return state


class Writers:
    """Whoever may write a family."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._buses: dict[str, Bus] = {}

    async def write(self, tag: str, fact: Fact | None = None) -> int:
        user = next(name for name, families in FAMILIES.items() if tag.partition(".")[0] in families)
        if user not in self._buses:
            self._buses[user] = await self._server.connect(user)
        journal = Journal(self._buses[user], service=user, node="n1")
        written = journal.write("sb", fact or EVENT_SAMPLES[tag].data, id=f"sb.{tag}.{id(fact)}")
        return await journal.append(written)


async def test_what_is_done_in_a_sandbox_counts_and_what_is_said_about_it_does_not(tmp_path: Path) -> None:
    async with nats_in(tmp_path, nodes=("n1",)) as server:
        state, writers = await begun(server), Writers(server)
        activity = Activity(await server.connect("health_monitor"))
        last = await activity.last(state)
        assert last == pytest.approx(clock.steady_at(LONG_AGO), abs=30), "an order, and nothing since"
        for tag in DOES_NOT:
            await writers.write(tag)
            assert await activity.last(state) == last, tag
        for tag in COUNTS:
            await writers.write(tag)
            now = await activity.last(state)
            assert now > last, tag
            last = now


@pytest.mark.parametrize("jump_s", [3600, -3600])
async def test_what_happens_after_a_clock_was_set_has_just_happened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jump_s: float
) -> None:
    wall = clock.now
    async with nats_in(tmp_path, nodes=("n1",)) as server:
        state, writers = await begun(server), Writers(server)
        activity = Activity(await server.connect("health_monitor"))
        before, asked = await activity.last(state), clock.steady()
        monkeypatch.setattr(clock, "now", lambda: wall() + datetime.timedelta(seconds=jump_s))
        assert await activity.last(state) == before
        await writers.write("command.output")
        assert asked - 1 < await activity.last(state) <= clock.steady()


async def test_what_happens_in_a_log_that_has_lost_its_end_has_just_happened(tmp_path: Path) -> None:
    async with nats_in(tmp_path, nodes=("n1",)) as server:
        state, writers = await begun(server), Writers(server)
        activity = Activity(await server.connect("health_monitor"))
        for tag in ("command.started", "command.output", "command.completed"):
            await writers.write(tag)
        before = await activity.last(state)
        admin = await server.connect("admin")
        await admin.api(f"STREAM.DELETE.{LOG_STREAM}")
        await provision(admin, Limits(), ["n1"])
        state = await begun(server)
        await writers.write("tool.invoked")
        assert await activity.last(state) > before, "its sequence was another's before"


async def test_a_command_runs_until_its_end_is_told_and_only_those_of_this_life_do(tmp_path: Path) -> None:
    async with nats_in(tmp_path, nodes=("n1",)) as server:
        state, writers = await begun(server), Writers(server)
        activity = Activity(await server.connect("health_monitor"))
        assert not await activity.commands_run(state, state.applied_sequence)
        started = await writers.write("command.started")
        assert await activity.commands_run(state, state.applied_sequence)
        await writers.write("command.started", CommandStarted(exec="other", argv=("true",), cwd="/"))
        await writers.write("command.completed")
        assert await activity.commands_run(state, state.applied_sequence), "another still does"
        assert await activity.commands_run(state, started)
        assert not await activity.commands_run(state, started + 2)


async def test_an_agent_counts_during_its_turns_and_not_while_it_waits_for_the_next_message(tmp_path: Path) -> None:
    async with nats_in(tmp_path, nodes=("n1",)) as server:
        state, writers = await begun(server), Writers(server)
        activity = Activity(await server.connect("health_monitor"))
        told: list[tuple[Fact, bool]] = [
            (AgentStarted(run="r", runtime="script", prompt="grow"), True),
            (AgentAttached(run="r", process="a-1", attempt=1), True),
            (CommandStarted(exec="a-1", argv=("claude",), cwd="/"), True),
            (AgentWaiting(run="r"), False),
            (AgentDelivered(run="r", order="c", kind="message", sequence=1, where="prompt"), True),
            (AgentWaiting(run="r"), False),
            (CommandStarted(exec="e-1", argv=("make",), cwd="/"), True),
        ]
        for fact, counts in told:
            await writers.write(tag_of(fact), fact)
            assert await activity.commands_run(state, state.applied_sequence) == counts, fact
        over = AgentCompleted(run="r", reason="done")
        await writers.write(tag_of(over), over)
        assert await activity.commands_run(state, state.applied_sequence), "its program has not ended"
