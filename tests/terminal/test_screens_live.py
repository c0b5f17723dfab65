"""Real programs under a real PTY: the screen at any sequence is the one that was seen live. One node for all of it."""

import asyncio
import contextlib
import os
import pty
import random
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
import pytest_asyncio

from contracts import codec, subjects
from contracts.commands.command import PtySize
from contracts.errors import Invalid, SandboxExecFailed, SandboxNotFound, Unavailable
from contracts.events import command
from contracts.past import GetStateAt, StateAt
from contracts.payload import unpack
from contracts.screens import GetScreen, Screen
from infra.bus import reader
from infra.client import Cloche, Sandbox
from infra.client.execution import Execution
from infra.client.past import state_at
from infra.client.screens import screen_at
from infra.embedded import secrets
from infra.log.live import LiveView
from infra.terminal.emulator import Emulator, Position
from services.replay.past.store import SnapshotStore
from services.replay.screens.answering import ScreensInTime
from services.replay.screens.player import ScreenPlayer, Spacing
from services.replay.screens.remembered import RememberedScreens
from tests.cli.shell import Shell
from tests.services.node import Node, node_in

pytestmark = pytest.mark.asyncio(loop_scope="module")

SESSION = r"""
printf '\033]0;a session\007\033[1;31mred\033[0m \033[38;5;208morange\033[0m \033[48;2;1;2;3mdeep\033[m\r\n'
seq 1 60; tput cup 3 7; printf 'moved'; tput ed; printf '\r\nasked: '; read answer
stty size; vim -u NONE -N -n --cmd 'set t_RV= t_u7= nottyfast' -c 'normal ifrom vim' -c redraw -c 'qa!'
top -b -n 1 | head -3 >/dev/null; TERM=xterm busybox ls --color=always / | head -5
cat <<'END' | python3 -
import curses, time
def draw(window):
    curses.start_color(); curses.init_pair(1, curses.COLOR_YELLOW, curses.COLOR_BLUE)
    for step in range(6):
        window.erase(); window.border(); window.addstr(2, 3 + step, f"step {step}", curses.color_pair(1))
        window.hline(4, 2, curses.ACS_HLINE, 10); window.refresh()
        time.sleep(0.2)
curses.wrapper(draw)
END
printf 'done \346\274\242\345\255\227\r\n'
"""


class Seen(NamedTuple):
    lines: list[str]
    cursor: Position
    title: str
    alternate: bool
    size: tuple[int, int]


class Session(NamedTuple):
    sandbox: Sandbox
    exec: str
    seen: dict[int, Seen]
    """After each event of the command."""
    before: int
    """A sequence before it began."""


def look(emulator: Emulator) -> Seen:
    size = (emulator.cols, emulator.rows)
    return Seen(emulator.lines(), emulator.cursor, emulator.title, emulator.alternate, size)


def as_seen(screen: Screen) -> Seen:
    cursor = Position(screen.cursor_x, screen.cursor_y, screen.cursor_hidden)
    return Seen(list(screen.lines), cursor, screen.title, screen.alternate, (screen.cols, screen.rows))


async def watched(cloche: Cloche, execution: Execution, sandbox: Sandbox, size: PtySize) -> dict[int, Seen]:
    """Fed live, event by event; answers what is asked, on a larger terminal."""
    emulator = Emulator(size.cols, size.rows)
    seen: dict[int, Seen] = {}
    written = b""
    asked = False
    filters = subjects.events_of(sandbox.id, family="command", scope=execution.id)
    async for entry in reader.read(cloche.bus, filters, 1, follow=True):
        fact = codec.decode_fact(codec.decode_head(entry.data))
        if isinstance(fact, command.CommandOutput):
            data = unpack(fact.data, fact.encoding)
            written += data
            emulator.feed(data)
        elif isinstance(fact, command.CommandInput) and fact.resize is not None:
            emulator.resize(fact.resize.cols, fact.resize.rows)
        seen[entry.seq] = look(emulator)
        if not asked and b"asked: " in written:
            asked = True
            await execution.resize(30, 100)
            await execution.write(b"yes\n")
        if isinstance(fact, command.CommandCompleted):
            assert b"30 100" in written
            return seen
    raise AssertionError("it never ended")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[Node, Cloche]]:
    async with node_in(tmp_path_factory.mktemp("screens")) as (node, cloche):
        yield node, cloche


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def session(world: tuple[Node, Cloche]) -> Session:
    _, cloche = world
    sandbox = await cloche.create()
    before = (await reader.bounds(cloche.bus)).last
    size = PtySize(rows=24, cols=80)
    execution = await sandbox.start(SESSION, pty=size, stdin=True, env={"TERM": "xterm-256color", "LANG": "C.UTF-8"})
    async with asyncio.timeout(60):
        seen = await watched(cloche, execution, sandbox, size)
    return Session(sandbox, execution.id, seen, before)


def on_a_terminal(shell: Shell, *arguments: str) -> tuple[int, bytes]:
    master, slave = pty.openpty()
    with subprocess.Popen(
        shell.argv(*arguments), env=shell.env, stdin=subprocess.DEVNULL, stdout=slave, stderr=slave
    ) as child:
        os.close(slave)
        shown = b""
        with contextlib.suppress(OSError):
            while piece := os.read(master, 65536):
                shown += piece
        os.close(master)
        return child.wait(), shown


def expected(session: Session, sequence: int) -> Seen:
    return session.seen[max(each for each in session.seen if each <= sequence)]


async def test_the_screen_at_any_sequence_is_the_one_that_was_seen_live(session: Session) -> None:
    first, last = min(session.seen), max(session.seen)
    chosen = [first, last, *random.Random(8).choices(range(first, last + 1), k=98)]
    for sequence in chosen:
        screen = await session.sandbox.screen(session.exec, sequence)
        assert as_seen(screen) == expected(session, sequence), sequence
    assert any(seen.alternate for seen in session.seen.values())
    assert {seen.size for seen in session.seen.values()} == {(80, 24), (100, 30)}


async def test_the_last_screen_is_as_a_person_would_have_seen_it(session: Session) -> None:
    screen = await session.sandbox.screen(scrollback=100)
    assert screen.exec == session.exec
    assert (screen.cols, screen.rows, screen.pty, screen.ended, screen.alternate) == (100, 30, True, True, False)
    assert screen.title == "a session"
    whole = [*screen.scrollback, *screen.lines]
    assert whole[0] == "\x1b[0;1;31mred\x1b[0m \x1b[0;38;5;208morange\x1b[0m \x1b[0;48;2;1;2;3mdeep\x1b[0m"
    assert whole[1:4] == ["1", "2", "3"]
    assert "done 漢字" in whole
    assert not any("from vim" in line for line in whole)


async def test_what_remembered_screens_answer_is_what_the_log_answers(
    world: tuple[Node, Cloche], session: Session, tmp_path: Path
) -> None:
    node, cloche = world
    settings = msgspec.structs.replace(node.settings, data=tmp_path)

    async def nobody(_: object) -> msgspec.Struct:
        raise AssertionError

    screens = ScreensInTime(cloche.bus, settings, nobody, Spacing(work_s=0.0, bytes=0))
    first, last = min(session.seen), max(session.seen)
    for sequence in random.Random(9).choices(range(first, last + 1), k=30):
        query = GetScreen(sandbox=session.sandbox.id, exec=session.exec, at=sequence)
        assert as_seen(await screens.at(query)) == expected(session, sequence)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) > 5
    for path in files:
        path.write_bytes(path.read_bytes()[:-7] + b"damaged")
    query = GetScreen(sandbox=session.sandbox.id, exec=session.exec, at=last)
    assert as_seen(await screens.at(query)) == expected(session, last)


async def test_a_remembered_screen_of_another_log_is_not_believed(
    world: tuple[Node, Cloche], session: Session, tmp_path: Path
) -> None:
    node, cloche = world
    settings = msgspec.structs.replace(node.settings, data=tmp_path)

    async def nobody(_: object) -> msgspec.Struct:
        raise AssertionError

    screens = ScreensInTime(cloche.bus, settings, nobody, Spacing(work_s=0.0, bytes=0))
    sequences = sorted(session.seen)
    at, last = sequences[len(sequences) // 2], sequences[-1]
    assert expected(session, at) != expected(session, last)
    await screens.at(GetScreen(sandbox=session.sandbox.id, exec=session.exec, at=last))
    (kept,) = (path for path in tmp_path.rglob("*") if path.is_file())
    kept.rename(kept.with_name(str(at)))
    query = GetScreen(sandbox=session.sandbox.id, exec=session.exec, at=at)
    assert as_seen(await screens.at(query)) == expected(session, at)


async def test_a_command_without_a_terminal_is_shown_on_one_of_80_by_24(session: Session) -> None:
    result = await session.sandbox.run("seq 1 100; printf end")
    screen = await session.sandbox.screen(result.exec, scrollback=3)
    assert (screen.cols, screen.rows, screen.pty, screen.ended) == (80, 24, False, True)
    assert screen.lines[-1] == "end"
    assert screen.lines[:2] == ("78", "79")
    assert screen.scrollback == ("75", "76", "77")
    told = await session.sandbox.run("printf 'no\\nluck\\n' >&2")
    assert (await session.sandbox.screen(told.exec)).lines[:3] == ("no", "luck", "")


async def test_a_huge_output_is_answered_from_its_end_and_again_after_a_restart(
    world: tuple[Node, Cloche], session: Session
) -> None:
    node, _ = world
    result = await session.sandbox.run("seq 1 2000000")
    assert result.exit_code == 0
    first = await session.sandbox.screen(result.exec, scrollback=2000)
    assert first.lines[-2:] == ("2000000", "")
    assert first.scrollback[-1] == str(2000000 - 23)
    assert (len(first.scrollback), first.bytes, first.truncated) == (2000, 14888896, False)
    assert [path for path in (node.data / "replay" / "screens").rglob("*") if path.is_file()]
    await node.restart("replay")
    again = await session.sandbox.screen(result.exec, at=first.sequence, scrollback=2000)
    assert again == first


async def test_a_screen_that_takes_long_is_drawn_further_each_time_that_somebody_asks(
    world: tuple[Node, Cloche], session: Session, tmp_path: Path
) -> None:
    _, cloche = world
    result = await session.sandbox.run("seq 1 200000")
    remembered = RememberedScreens(SnapshotStore(tmp_path, "1", max_bytes=1 << 20))
    player = ScreenPlayer(remembered, most_work_s=0.0)
    view = LiveView(cloche.bus)
    last = (await view.bounds()).last
    refusals = 0
    while True:
        try:
            played = await player.at(view, session.sandbox.id, result.exec, last)
            break
        except Unavailable:
            refusals += 1
            assert refusals < 100
    assert refusals > 1
    assert played.emulator.lines()[-2] == "200000"


async def test_an_answer_that_is_too_large_says_so(session: Session) -> None:
    art = "for i in range(110): print(''.join(f'\\x1b[38;2;{i};{j%256};7m#' for j in range(400)))"
    program = f'python3 -c "{art}"'
    execution = await session.sandbox.start(program, pty=PtySize(rows=100, cols=500))
    assert (await execution.wait()).exit_code == 0
    screen = await session.sandbox.screen(execution.id, scrollback=2000)
    assert screen.truncated
    assert len(screen.lines) == 100
    assert screen.lines[0] == "#" * 400


async def test_questions_that_have_no_answer_say_why(world: tuple[Node, Cloche], session: Session) -> None:
    _, cloche = world
    with pytest.raises(SandboxNotFound, match="there is no sandbox 'nobody'"):
        await screen_at(cloche.bus, "nobody")
    with pytest.raises(Invalid, match="has no command 'e-none'"):
        await session.sandbox.screen("e-none")
    with pytest.raises(Invalid, match="had not begun at sequence"):
        await session.sandbox.screen(session.exec, at=session.before)
    with pytest.raises(Invalid, match="no command had begun"):
        await session.sandbox.screen(at=1)
    with pytest.raises(Invalid, match="the log ends at sequence"):
        await session.sandbox.screen(at=10**9)
    refused = await session.sandbox.start(["/no/such/program"])
    with pytest.raises(SandboxExecFailed):
        await refused.wait()
    with pytest.raises(Invalid, match="never ran"):
        await session.sandbox.screen(refused.id)


async def test_the_last_command_that_had_begun_is_meant_where_none_is_named(session: Session) -> None:
    screen = await session.sandbox.screen(at=max(session.seen))
    assert screen.exec == session.exec
    for _ in range(3):
        await session.sandbox.run("true")
    assert (await session.sandbox.screen(at=max(session.seen))).exec == session.exec


async def test_the_command_line_prints_it_plainly_and_with_colours_on_a_terminal(
    world: tuple[Node, Cloche], session: Session
) -> None:
    node, _ = world
    shell = Shell(node.data, CLOCHE_URL=node.server.url, CLOCHE_CREDS=str(secrets.directory(node.data)))
    last = str(max(session.seen))
    arguments = ("screen", session.sandbox.id, session.exec, "--at", last, "--scrollback", "100")
    said = await asyncio.to_thread(shell, *arguments)
    assert (said.code, said.err) == (0, b"")
    lines = said.out.decode().split("\n")
    assert lines[:3] == ["red orange deep", "1", "2"]
    assert lines[-2:] == ["done 漢字", ""]
    answer = await asyncio.to_thread(shell, *arguments, "--json")
    assert codec.decode(answer.out, Screen).exec == session.exec
    code, shown = await asyncio.to_thread(on_a_terminal, shell, *arguments)
    assert code == 0
    assert b"\x1b[0;1;31mred\x1b[0m" in shown
    assert b"100x30, title 'a session'" in shown
    wrong = await asyncio.to_thread(shell, "screen", session.sandbox.id, "e-none")
    assert wrong.code == 2
    assert b"has no command 'e-none'" in wrong.err
    early = await asyncio.to_thread(shell, "screen", session.sandbox.id, session.exec, "--at", "yesterday")
    assert early.code == 2


async def test_screens_of_what_ran_and_of_what_ended_last_are_given_together(
    world: tuple[Node, Cloche], session: Session, tmp_path: Path
) -> None:
    node, cloche = world
    sandbox = session.sandbox
    ended = await sandbox.run("echo ended")
    execution = await sandbox.start("echo running; read x", pty=PtySize(rows=3, cols=20), stdin=True)
    async for chunk in execution.output():
        if b"running" in chunk.data:
            break

    async def state_then(query: GetStateAt) -> StateAt:
        return await state_at(cloche.bus, query.sandbox, query.at)

    screens = ScreensInTime(cloche.bus, msgspec.structs.replace(node.settings, data=tmp_path), state_then)
    now = (await reader.bounds(cloche.bus)).last
    together = await screens.together(sandbox.id, now)
    assert [(screen.exec, screen.lines[0], screen.ended) for screen in together] == [
        (ended.exec, "ended", True),
        (execution.id, "running", False),
    ]
    assert await screens.together(sandbox.id, 1) == ()
    await execution.write(b"\n")
    await execution.wait()
