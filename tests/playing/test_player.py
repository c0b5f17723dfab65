"""`cloche replay` at a real terminal, without any service."""

import asyncio
import datetime
import os
import pty
import select
import signal
import subprocess
import sys
import termios
import threading
from collections.abc import AsyncIterator, Callable

import pytest
import pytest_asyncio

from contracts.events.command import TerminalSize
from services.cli.player_terminal import ENTER, LEAVE
from tests.bus.servers import Server, nats_in
from tests.cli.shell import PATIENCE_S
from tests.playing.past import BEGINNING, HOSTILE, record
from tests.playing.watching import Watcher, shell_of, watching

pytestmark = pytest.mark.asyncio(loop_scope="module")


class Recorded:
    def __init__(self, server: Server, sequences: list[int]) -> None:
        self.server = server
        self.sequences = sequences

    async def watched(self, look: Callable[[Watcher], None], *arguments: str) -> None:
        """`look` is somebody at a terminal: it waits for what is shown."""

        def sit_down() -> None:
            with watching(self.server, *arguments) as watcher:
                look(watcher)

        await asyncio.to_thread(sit_down)


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def recorded(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Recorded]:
    async with nats_in(tmp_path_factory.mktemp("nats")) as server:
        lines = [b"\x1b[31mline %d\x1b[0m\r\n" % number for number in range(10)]
        small = TerminalSize(rows=20, cols=40)
        sequences = await record(server, "sb", outputs=lines, pty=small, argv=["make", "all"])
        later = BEGINNING + datetime.timedelta(minutes=10)
        sequences += await record(server, "sb", outputs=[b"second\r\n"], exec="e2", argv=["./check"], start=later)
        wide = [b"%03d " % number + b"x" * 190 + b"END\r\n" for number in range(100)] + [b"$ " + b"y" * 150]
        await record(server, "wide", outputs=wide, pty=TerminalSize(rows=60, cols=200), every_s=0.001)
        await record(server, "evil", outputs=HOSTILE, argv=["\x1b]0;owned\x07", "\u202etxet"])
        yield Recorded(server, sequences)


async def test_it_looks_as_it_did(recorded: Recorded) -> None:
    def look(watcher: Watcher) -> None:
        rows = watcher.sees_text("■ ended")
        assert rows[0] == "$ make all"
        assert rows[1:11] == [f"line {number}" for number in range(10)]
        assert rows[11] == "[Process exited with code 0 in 1ms]"
        assert rows[12:15] == ["$ ./check", "second", "[Process exited with code 0 in 1ms]"]
        assert watcher.coloured()[1].startswith("\x1b[0;31mline 0") or "31m" in watcher.coloured()[1]
        # Eleven seconds, ten minutes that count as one second, and two seconds.
        assert "0:14 / 0:14" in rows[-1]
        assert f"#{recorded.sequences[-1]}" in rows[-1]
        assert watcher.leaves() == 0
        shown = watcher.person.shown
        assert shown.count(ENTER) == shown.count(LEAVE) == 1
        assert shown.index(LEAVE) == len(shown) - len(LEAVE)

    await recorded.watched(look, "sb", "--speed", "100", "--max-idle", "1s")


async def test_keys_move_it_about(recorded: Recorded) -> None:
    def look(watcher: Watcher) -> None:
        watcher.sees_last("$ make all")
        watcher.types(b" ")
        watcher.sees_text("paused")
        watcher.types(b".")
        watcher.sees_last("line 0")
        watcher.types(b"nn")
        watcher.sees_last("line 2")
        watcher.types(b"\x1b[C")
        watcher.sees_last("line 7")
        watcher.types(b"\x1bOD\x1b[D")
        watcher.sees_last("$ make all")
        watcher.types(b"9")
        watcher.sees_last("$ ./check")
        watcher.types(b".")
        watcher.sees_last("second")
        watcher.types(b"[")
        watcher.sees_last("$ ./check")
        watcher.types(b"[")
        watcher.sees_last("[Process exited with code 0 in 1ms]")
        watcher.types(b"]]")
        watcher.sees(lambda rows: rows[14] == "[Process exited with code 0 in 1ms]")
        watcher.types(b"0")
        watcher.sees_last("$ make all")
        watcher.types(b"\x1b[A+")
        watcher.sees_text("0.004x")
        watcher.types(b"\x1b[B-=")
        watcher.sees_text("0.002x")
        watcher.types(b"xyz\x1b[5~\x1b")
        assert watcher.leaves() == 0

    await recorded.watched(look, "sb", "--speed", "0.001", "--max-idle", "1s")


async def test_a_part_and_one_command_can_be_chosen(recorded: Recorded) -> None:
    def one(watcher: Watcher) -> None:
        rows = watcher.sees_text("■ ended")
        assert rows[:3] == ["$ ./check", "second", "[Process exited with code 0 in 1ms]"]
        watcher.leaves()

    def part(watcher: Watcher) -> None:
        rows = watcher.sees_text("■ ended")
        assert [row for row in rows[:-1] if row] == ["$ make all", *(f"line {number}" for number in range(6))]
        assert "0:02 / 0:02" in rows[-1]
        watcher.types(b"0 ")
        watcher.sees(lambda rows: rows[4] == "line 3" and rows[5] == "")
        watcher.leaves()

    await recorded.watched(one, "sb", "--exec", "e2", "--speed", "max")
    start, end = recorded.sequences[4], recorded.sequences[6]
    await recorded.watched(part, "sb", "--from", str(start), "--to", str(end), "--speed", "max")


async def test_a_large_session_is_shown_around_the_cursor(recorded: Recorded) -> None:
    def look(watcher: Watcher) -> None:
        rows = watcher.sees_text("■ ended")
        assert "part of 200x60" in rows[-1]
        assert rows[-2] == "" or "Process exited" in rows[-2] or "Process exited" in rows[-3]
        watcher.resizes(rows=70, cols=210)
        rows = watcher.sees(lambda rows: any(row.endswith("END") for row in rows) and "ended" in rows[69])
        assert "part of" not in rows[69]
        watcher.resizes(rows=10, cols=30)
        watcher.sees(lambda rows: len(rows) == 10 and "ended" in rows[9])
        watcher.leaves()

    await recorded.watched(look, "wide", "--speed", "max")


async def test_nothing_from_inside_reaches_the_terminal_but_text_and_colours(recorded: Recorded) -> None:
    def look(watcher: Watcher) -> None:
        rows = watcher.sees_text("■ ended")
        assert "safe" in rows
        assert any("link" in row for row in rows)
        watcher.leaves()
        shown = watcher.person.shown
        for forbidden in (b"\x1b]", b"\x1bP", b"\x1b[6n", b"?1000h", b"\x07", b"\xe2\x80\xae", b"\xc2\x9b"):
            assert forbidden not in shown

    await recorded.watched(look, "evil", "--speed", "max")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_the_terminal_is_restored_when_it_is_ended(recorded: Recorded, number: signal.Signals) -> None:
    def look(watcher: Watcher) -> None:
        watcher.sees_text("playing")
        watcher.person.process.send_signal(number)
        assert watcher.person.leaves() == 130
        assert watcher.person.shown.endswith(LEAVE)

    await recorded.watched(look, "sb", "--speed", "0.001")


BREAKING = """
import itertools, sys
from contracts.errors import Unavailable
from services.cli import main, player
draws, drawn = itertools.count(), player.status_line
def status_line(*given):
    if next(draws) == 3:
        raise Unavailable("the log is gone")
    return drawn(*given)
player.status_line = status_line
sys.argv = ["cloche", "replay", "sb"]
main.main()
"""


ENDLESS = """
import asyncio, sys
from services.cli import main, player
async def forward(self, goal, budget_s):
    await asyncio.sleep(budget_s)
    return False
player.Deck.forward = forward
sys.argv = ["cloche", "replay", "sb", "--from", "7"]
main.main()
"""


async def test_whoever_waits_for_a_late_beginning_sees_so_and_can_leave(recorded: Recorded) -> None:
    def look() -> None:
        ours, theirs = pty.openpty()
        environment = shell_of(recorded.server).env
        waiting = [sys.executable, "-c", ENDLESS]
        with subprocess.Popen(waiting, env=environment, stdin=theirs, stdout=theirs, stderr=theirs) as process:
            try:
                _read_until(ours, b"seeking")
                os.write(ours, b"xq")
                _read_until(ours, LEAVE)
                assert process.wait(PATIENCE_S) == 0
            finally:
                process.kill()
        os.close(ours)
        os.close(theirs)

    await asyncio.to_thread(look)


def _read_until(terminal: int, wanted: bytes) -> None:
    shown = b""
    while wanted not in shown:
        assert select.select([terminal], [], [], PATIENCE_S)[0], shown
        shown += os.read(terminal, 65536)


async def test_the_terminal_is_restored_when_the_player_breaks(recorded: Recorded) -> None:
    def look() -> None:
        ours, theirs = pty.openpty()
        before = termios.tcgetattr(theirs)
        environment = shell_of(recorded.server).env
        breaking = [sys.executable, "-c", BREAKING]
        with subprocess.Popen(breaking, env=environment, stdin=theirs, stdout=theirs, stderr=theirs) as process:
            shown = b""
            while process.poll() is None or select.select([ours], [], [], 0)[0]:
                shown += os.read(ours, 65536) if select.select([ours], [], [], 0.1)[0] else b""
        assert termios.tcgetattr(theirs) == before
        assert shown.endswith(LEAVE + b"cloche: the log is gone\r\n")
        assert process.returncode == 1
        os.close(ours)
        os.close(theirs)

    await asyncio.to_thread(look)


async def test_a_follower_sees_what_happens_now(recorded: Recorded) -> None:
    await record(recorded.server, "live", outputs=[b"before\r\n"])
    seen = threading.Event()

    def look(watcher: Watcher) -> None:
        watcher.sees_text("before")
        seen.set()
        watcher.sees_text("after")
        watcher.leaves()

    async def go_on() -> None:
        await asyncio.to_thread(seen.wait, 60)
        await record(recorded.server, "live", outputs=[b"after\r\n"], exec="e2")

    await asyncio.gather(recorded.watched(look, "live", "--speed", "1000", "--follow"), go_on())


async def test_without_keys_it_leaves_at_the_end(recorded: Recorded) -> None:
    def look(watcher: Watcher) -> None:
        assert watcher.person.leaves() == 0
        assert b"second" in watcher.person.shown

    await recorded.watched(look, "sb", "--speed", "max", "--no-keys")


async def test_where_nobody_can_press_a_key_it_leaves_at_the_end(recorded: Recorded) -> None:
    """Only its output is a terminal: a script has it, with nothing to read."""

    def look() -> None:
        ours, theirs = pty.openpty()
        shell = shell_of(recorded.server)
        argv = shell.argv("replay", "sb", "--speed", "max")
        with subprocess.Popen(argv, env=shell.env, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs) as process:
            try:
                _read_until(ours, LEAVE)
                assert process.wait(PATIENCE_S) == 0
            finally:
                process.kill()
        os.close(ours)
        os.close(theirs)

    await asyncio.to_thread(look)


async def test_without_a_terminal_it_says_what_else_there_is(recorded: Recorded) -> None:
    shell = shell_of(recorded.server)
    refused = await asyncio.to_thread(shell, "replay", "sb")
    assert refused.code == 2
    assert b"cloche logs" in refused.err
    assert b"--speed max" in refused.err
    dumped = await asyncio.to_thread(shell, "replay", "sb", "--speed", "max", "--exec", "e1")
    assert dumped.code == 0
    assert b"\x1b[31mline 9\x1b[0m\r\n" in dumped.out
    unknown = await asyncio.to_thread(shell, "replay", "nobody", "--speed", "max")
    assert (unknown.code, b"there is no sandbox 'nobody'" in unknown.err) == (2, True)
    wrong = await asyncio.to_thread(shell, "replay", "sb", "--speed", "quick")
    assert (wrong.code, b"--speed 'quick'" in wrong.err) == (2, True)
