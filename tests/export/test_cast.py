import asyncio
import itertools
import os
import pty
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from contracts import subjects
from contracts.errors import Invalid
from infra.log.live import LiveView
from infra.terminal.emulator import Emulator
from tests.browser.chromium import chromium, needs_chromium
from tests.bus.servers import Server, nats_in
from tests.export.casts import SPOKEN, cast, parsed, record_session
from tests.playing.past import HOSTILE, record

ASCIINEMA = Path(sys.executable).with_name("asciinema")
PLAYER = Path.home() / ".cache/cloche-test/asciinema-player/3.17.0/node_modules/asciinema-player/dist/bundle"
EVIL = (*HOSTILE[:-1], f"{SPOKEN}\r\n".encode(), b"x" * 500_000 + b"\r\n", HOSTILE[-1])
"""Escape sequences, script tags, and a huge line."""
OBEYED = ("\x1b]", "\x1bP", "\x1b[6n", "?1000h", "\x07", "\x9b")
"""By a terminal, which would do more than show it."""
needs_player = pytest.mark.skipif(
    not PLAYER.is_dir() and not os.environ.get("CLOCHE_REQUIRE_BROWSER"), reason="asciinema-player is not installed"
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    async with nats_in(tmp_path_factory.mktemp("casts")) as running:
        await record_session(running)
        await record(running, "evil", outputs=EVIL, argv=["\x1b]0;owned\x07", "\u202etxet"])
        yield running


pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_cast_has_sizes_intervals_markers_input_and_text(server: Server, tmp_path: Path) -> None:
    result = await cast(server, tmp_path / "sb.cast")
    header, events = parsed(tmp_path / "sb.cast")
    assert header["version"] == 3
    assert header["term"] == {"cols": 100, "rows": 30, "type": "xterm-256color"}
    assert header["idle_time_limit"] == 2
    assert header["timestamp"] == 1767225600
    assert {code for _, code, _ in events} == set("oirm")
    assert [data for _, code, data in events if code == "r"] == ["60x20", "80x24"]
    assert [data for _, code, data in events if code == "i"] == ["q"]
    assert [data for _, code, data in events if code == "m"] == ["$ vi x", "exit 3", "tool: Bash", "$ make", "signal 9"]
    text = "".join(data for _, code, data in events if code == "o")
    assert SPOKEN in text
    assert "one\r\ntwo\r\n\ufffd" in text
    intervals = [interval for interval, _, _ in events]
    assert min(intervals) >= 0
    assert sum(intervals) == pytest.approx(64)
    assert result == (len(events), 64)


async def test_version_2_has_times_from_the_start_and_no_exit(server: Server, tmp_path: Path) -> None:
    await cast(server, tmp_path / "sb.cast", version=2)
    header, events = parsed(tmp_path / "sb.cast")
    assert (header["version"], header["width"], header["height"]) == (2, 100, 30)
    times = [time for time, _, _ in events]
    assert times == sorted(times)
    assert times[-1] == 64


async def test_silences_can_be_shortened_and_one_command_shown_alone(server: Server, tmp_path: Path) -> None:
    result = await cast(server, tmp_path / "short.cast", max_idle_s=0.4)
    assert parsed(tmp_path / "short.cast")[0]["idle_time_limit"] == 0.4
    assert max(interval for interval, _, _ in parsed(tmp_path / "short.cast")[1]) == 0.4
    assert result.seconds < 5
    await cast(server, tmp_path / "one.cast", exec_id="e1")
    header, events = parsed(tmp_path / "one.cast")
    assert header["term"]["cols"] == 100
    assert not any("make" in data for _, _, data in events)
    assert events[-1][1:] == ["x", "3"]
    await cast(server, tmp_path / "two.cast", exec_id="e2")
    header, events = parsed(tmp_path / "two.cast")
    assert header["term"]["cols"] == 80
    assert events[-1][1:] == ["x", "137"]
    with pytest.raises(Invalid, match="has no command 'e9'"):
        await cast(server, tmp_path / "none.cast", exec_id="e9")
    assert not (tmp_path / "none.cast").exists()


async def test_a_cast_has_nothing_for_a_terminal_but_what_it_shows(server: Server, tmp_path: Path) -> None:
    await cast(server, tmp_path / "evil.cast", sandbox="evil")
    text = "".join(data for _, code, data in parsed(tmp_path / "evil.cast")[1] if code in "om")
    assert "link" in text
    assert "safe" in text
    assert not [each for each in OBEYED if each in text]


async def test_a_part_begins_with_what_was_on_the_screen(server: Server, tmp_path: Path) -> None:
    view = LiveView(await server.connect("client"))
    sequences = [entry.seq async for entry in view.read(subjects.events_of("sb"))]
    await cast(server, tmp_path / "part.cast", first=sequences[3])
    header, events = parsed(tmp_path / "part.cast")
    assert header["term"] == {"cols": 100, "rows": 30, "type": "xterm-256color"}
    shown = Emulator(100, 30)
    shown.feed(events[0][2].encode())
    assert events[0][:2] == [0, "o"]
    assert [line for line in shown.lines() if line] == ["\x1b[0;1m$ vi x\x1b[0m", SPOKEN]
    assert shown.cursor[:2] == (0, 2)
    assert [code for _, code, _ in events[:4]] == ["o", "i", "r", "o"]


async def test_the_real_asciinema_plays_version_2(server: Server, tmp_path: Path) -> None:
    file = tmp_path / "sb.cast"
    await cast(server, file, version=2, max_idle_s=0.01)
    for verb in (("cat",), ("play", "-s", "1000")):
        shown = await asyncio.to_thread(_in_a_terminal, [str(ASCIINEMA), *verb, str(file)], tmp_path)
        assert SPOKEN in shown
        assert "[Process exited with code 3 in 1500ms]" in shown
        assert "one\r\ntwo" in shown


async def test_the_real_asciinema_plays_what_is_hostile_and_hands_nothing_of_it_to_the_terminal(
    server: Server, tmp_path: Path
) -> None:
    file = tmp_path / "evil.cast"
    await cast(server, file, sandbox="evil", version=2, max_idle_s=0.01)
    for verb in (("cat",), ("play", "-s", "1000")):
        shown = await asyncio.to_thread(_in_a_terminal, [str(ASCIINEMA), *verb, str(file)], tmp_path)
        assert SPOKEN in shown
        assert shown.count("x") > 500_000
        assert "safe" in shown
        assert not [each for each in OBEYED if each in shown]


def _in_a_terminal(argv: list[str], home: Path) -> str:
    """What a program writes to a terminal. It keeps an id of its own under its home."""
    ours, theirs = pty.openpty()
    env = os.environ | {"TERM": "xterm-256color", "LC_ALL": "C.UTF-8", "ASCIINEMA_CONFIG_HOME": str(home)}
    process = subprocess.Popen(argv, stdin=theirs, stdout=theirs, stderr=theirs, env=env)
    os.close(theirs)
    try:
        read = b"".join(itertools.takewhile(bool, iter(lambda: _read(ours), None)))
    finally:
        os.close(ours)
    assert process.wait() == 0, read
    # `cat` leaves the terminal as it is, which puts a return before every line break.
    return read.decode().replace("\r\r\n", "\r\n")


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:
        return b""


PLAYED = """
async ([cast, last]) => {
    const place = document.getElementById('place');
    const player = AsciinemaPlayer.create({data: cast}, place, {preload: true, autoPlay: false});
    const marks = [];
    player.addEventListener('marker', mark => marks.push(mark.label));
    await player.play();
    const length = await player.getDuration();
    await player.seek('100%');
    const text = () => place.querySelector('.ap-term-text').textContent;
    while (!text().includes(last)) { await new Promise(requestAnimationFrame); }
    return [length, text()];
}
"""


@needs_chromium
@needs_player
@pytest.mark.parametrize(
    ("sandbox", "last", "words"),
    [
        ("sb", "two", (SPOKEN, "[Process ended by signal 9 in 1500ms]")),
        # The huge line has everything before it pushed off the screen.
        ("evil", "safe", ("x" * 80, "[Process exited with code 0 in 1ms]")),
    ],
)
async def test_the_real_player_plays_version_3(
    server: Server, tmp_path: Path, sandbox: str, last: str, words: tuple[str, ...]
) -> None:
    file = tmp_path / "played.cast"
    await cast(server, file, sandbox=sandbox, max_idle_s=1.0)
    complaints: list[str] = []
    async with chromium() as browser:
        page = await browser.new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(dialog.message))
        await page.set_content("<!doctype html><div id=place></div>")
        await page.add_style_tag(path=PLAYER / "asciinema-player.css")
        await page.add_script_tag(path=PLAYER / "asciinema-player.min.js")
        seconds, text = await page.evaluate(PLAYED, [file.read_text(), last])
    assert complaints == []
    assert seconds == pytest.approx(parsed_length(file))
    assert not [each for each in words if each not in text]


def parsed_length(file: Path) -> float:
    return float(sum(interval for interval, _, _ in parsed(file)[1]))
