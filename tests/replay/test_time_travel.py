"""A whole session on a real node, and what is told of it afterwards: at any sequence what it was."""

import asyncio
import datetime
import random
import shutil
from collections.abc import AsyncIterator
from typing import NamedTuple

import pytest
import pytest_asyncio

from contracts import codec, subjects
from contracts.errors import Invalid, SandboxFileNotFound, SandboxNotFound
from contracts.events.file import EntryKind
from contracts.past import StateAt
from contracts.screens import GetScreen, Screen
from contracts.state import Status
from infra.bus import page, reader
from infra.client import Cloche, Sandbox
from infra.client.asking import ask
from infra.client.past import rebuild, state_at
from infra.embedded import secrets
from tests.cli.shell import Shell
from tests.replay.live import Recording, recording
from tests.replay.session import SessionNode, play, session_node, web_server
from tests.services.node import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")
QUERIES = 100


class Played(NamedTuple):
    node: SessionNode
    cloche: Cloche
    sandbox: Sandbox
    live: Recording


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def played(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Played]:
    place = tmp_path_factory.mktemp("session")
    more = "[replay]\nsnapshot_events = 20\n[intervals]\nsweep_s = 0.2\nhealth_s = 0.5\n"
    async with session_node(place, more) as node, node.connect() as cloche:
        async with web_server() as port, recording(cloche.bus, "session", place / "sandboxes") as live:
            sandbox = await play(cloche, "session", port, live.look)
        yield Played(node, cloche, sandbox, live)


def some(live: Recording) -> list[int]:
    """Sequences of the whole life, also those of others' events."""
    chance = random.Random(8)
    return [chance.randint(min(live.folded), live.last) for _ in range(QUERIES)]


def then(live: Recording, sequence: int) -> int:
    """The last of its events by then."""
    return max(each for each in live.folded if each <= sequence)


async def test_at_any_sequence_the_state_is_what_it_was_live(played: Played) -> None:
    for sequence in some(played.live):
        told = await played.sandbox.at(sequence)
        expected = played.live.folded[then(played.live, sequence)]
        assert told.sequence == sequence
        assert (told.state, told.conversation, told.traffic) == (
            expected.state,
            expected.conversation,
            expected.traffic,
        )
        assert told.time == expected.state.last_event_at


async def test_at_any_sequence_the_files_are_what_they_were_live(played: Played) -> None:
    files = played.live.files
    assert len({frozenset(tree.values()) for tree in files.values()}) > 3
    for sequence in some(played.live):
        if sequence < min(files):
            with pytest.raises(SandboxFileNotFound):
                await played.sandbox.history.tree(sequence)
            continue
        told = await played.sandbox.history.tree(sequence)
        assert told.tree == files[max(each for each in files if each <= sequence)]


async def test_at_any_moment_at_rest_the_files_are_those_that_were_on_disk(played: Played) -> None:
    # What the agent wrote and removed at once may never have been seen: then two of the five are one.
    assert len(played.live.trees) >= 4
    for sequence, expected in played.live.trees.items():
        tree = (await played.sandbox.history.tree(sequence)).tree
        told = {
            entry.path: {EntryKind.DIRECTORY: "/", EntryKind.SYMLINK: f"-> {entry.symlink}"}.get(
                entry.kind, entry.sha256
            )
            for entry in tree.values()
        }
        assert told == expected


async def test_at_any_sequence_the_screen_is_what_it_was_live(played: Played) -> None:
    shown = played.live.screens
    for sequence in some(played.live):
        if sequence < min(shown):
            continue
        at = max(each for each in shown if each <= sequence)
        expected = shown[at]
        query = GetScreen(sandbox="session", exec=expected.exec, at=sequence)
        told: Screen = await ask(played.cloche.bus, subjects.state_rpc("screen"), query, Screen)
        assert (list(told.lines), told.cursor_x, told.cursor_y) == (expected.lines, *expected.cursor)


async def test_the_session_has_something_of_everything(played: Played) -> None:
    """Otherwise the comparisons would say little."""
    end = played.live.folded[played.live.last]
    assert end.state.status == Status.STOPPED
    assert {each.outcome for each in end.state.recent} >= {"completed", "timed_out"}
    assert {line.kind for line in end.conversation.lines} >= {
        "prompt", "message", "thinking", "tool_use", "tool_result", "asked", "approved", "rejected", "note",
    }  # fmt: skip
    assert (end.traffic.allowed, end.traffic.denied) == (1, 1)
    pending = [each for each in played.live.folded.values() if any(run.pending for run in each.state.runs)]
    running = [each for each in played.live.folded.values() if any(c.totals.pty for c in each.state.running.values())]
    assert pending
    assert running
    assert end.state.cost_usd == 0.25


async def test_a_time_is_as_good_as_a_sequence(played: Played) -> None:
    sequences = sorted(played.live.folded)
    for sequence in (sequences[3], sequences[len(sequences) // 2]):
        entry = await page.fetch_one(played.cloche.bus, sequence)
        following = await reader.first(played.cloche.bus, subjects.LOG, start=sequence + 1)
        assert entry is not None
        assert following is not None
        if following.time - entry.time < datetime.timedelta(microseconds=2):
            continue
        for time in (entry.time, following.time - datetime.timedelta(microseconds=1)):
            told = await played.sandbox.at(time=time)
            assert (told.sequence, told.state) == (sequence, played.live.folded[sequence].state)
    assert (await played.sandbox.at(time=datetime.datetime.max.replace(tzinfo=datetime.UTC))).sequence >= sequences[-1]
    now = await played.sandbox.at(time=datetime.datetime.now(datetime.UTC))
    assert now.state.applied_sequence == played.live.last


async def test_what_it_used_is_told_where_it_is_still_known(played: Played) -> None:
    uses = [(await played.sandbox.at(each)).use for each in sorted(played.live.folded)[::9]]
    assert uses[0] is None
    assert any(use is not None and use.processes > 0 for use in uses)


@pytest.mark.parametrize(
    ("sandbox", "options", "error", "words"),
    [
        ("nobody", {}, SandboxNotFound, "there is no sandbox"),
        ("session", {"sequence": 10_000_000}, Invalid, "the log ends at"),
        ("later", {"sequence": 1}, Invalid, "did not exist at sequence 1"),
        ("session", {"time": datetime.datetime(2001, 1, 1, tzinfo=datetime.UTC)}, Invalid, "log begins later"),
        ("not a token", {}, Invalid, "is not a sandbox id"),
    ],
)
async def test_what_cannot_be_told_is_said(
    played: Played, sandbox: str, options: dict[str, object], error: type[Exception], words: str
) -> None:
    if sandbox == "later":
        with_it = await reader.last(played.cloche.bus, subjects.events_of("later")[0])
        if with_it is None:
            await played.cloche.create(id="later")
    with pytest.raises(error, match=words):
        await state_at(played.cloche.bus, sandbox, **options)  # type: ignore[arg-type]


async def test_killed_while_it_writes_snapshots_it_tells_the_same_afterwards(played: Played) -> None:
    folds = played.node.data / "replay" / "folds"
    for count in (1, 2, 3):
        shutil.rmtree(folds, ignore_errors=True)
        asking = asyncio.create_task(played.sandbox.at(played.live.last))
        await eventually(lambda: len(list(folds.rglob("session/*"))) >= count)  # noqa: B023
        await played.node.services["replay"].kill()
        # As a crash between the two writes of a file would leave it.
        for path in list(folds.rglob("session/*"))[::2]:
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        await played.node.services["replay"].start()
        for sequence in some(played.live)[:10]:
            assert (await played.sandbox.at(sequence)).state == played.live.folded[then(played.live, sequence)].state


async def test_without_the_directory_it_tells_the_same(played: Played) -> None:
    shutil.rmtree(played.node.data / "replay", ignore_errors=True)
    assert (await played.sandbox.at(played.live.last)).state == played.live.folded[played.live.last].state


async def test_snapshots_are_made_before_anybody_asks(played: Played) -> None:
    folds = played.node.data / "replay" / "folds"
    await played.node.services["replay"].kill()
    shutil.rmtree(folds, ignore_errors=True)
    await played.node.services["replay"].start()
    await eventually(lambda: len(list(folds.rglob("session/*"))) >= len(played.live.folded) // 20)


async def test_rebuilding_answers_all_the_while(played: Played) -> None:
    answered = 0
    async for standing in rebuild(played.cloche.bus):
        answered += (await played.sandbox.at(played.live.last)).sequence > 0
        last = standing
    assert (last.done, last.changed) == (True, ())
    assert last.sandboxes >= 1
    assert answered >= 2


async def test_the_command_line_tells_it_to_people_and_programs(played: Played) -> None:
    node = played.node
    shell = Shell(node.data, CLOCHE_URL=node.server.url, CLOCHE_CREDS=str(secrets.directory(node.data)))
    waiting = next(at for at, each in played.live.folded.items() if any(run.pending for run in each.state.runs))
    said = await asyncio.to_thread(shell, "state", "session", "--at", str(waiting))
    assert said.code == 0
    text = said.out.decode()
    for words in (
        f"session  running  at sequence {waiting}",
        "waits     deploy",
        "agent says  Hello, I begin",
        "entries",
    ):
        assert words in text
    assert "\x1b" not in text
    said = await asyncio.to_thread(shell, "state", "session", "--json")
    told: StateAt = codec.decode(said.out, StateAt)
    assert told.state == played.live.folded[played.live.last].state
    said = await asyncio.to_thread(shell, "rebuild")
    assert b"all were as the log says" in said.out
    said = await asyncio.to_thread(shell, "state", "session", "--at", "yesterday")
    assert (said.code, b"neither a sequence" in said.err) == (2, True)
