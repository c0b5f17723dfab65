"""What every tier promises about a command: its bytes, its end, its whole tree."""

import asyncio
import hashlib
import signal
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from infra.keeper.protocol import PtySize
from tests.conformance.inside import Inside, Result, a_sandbox, until
from tests.conformance.tiers import ENGINE_TELLS_SIGNALS_AS_CODES, TIERS

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module", params=TIERS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def inside(name: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Inside]:
    """One of each tier for all tests that leave nothing behind in it."""
    async with a_sandbox(tmp_path_factory.mktemp(name), name=name) as found:
        yield found


def ended_by(result: Result, number: int, name: str) -> bool:
    if name in ENGINE_TELLS_SIGNALS_AS_CODES and result.signal is None:
        return result.code == 128 + number
    return (result.code, result.signal) == (None, number)


async def test_every_exit_code_is_the_commands_own(inside: Inside) -> None:
    for code in (0, 1, 2, 42, 126, 127, 255):
        assert (await inside.sh(f"exit {code}")).code == code


async def test_a_signal_is_told(inside: Inside, name: str) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV):
        assert ended_by(await inside.sh(f"kill -{int(number)} $$"), number, name)


async def test_what_cannot_begin_says_why(inside: Inside) -> None:
    (inside.workspace / "plain").write_text("no program")
    for argv, reason in ((["no-such-program"], "NOT_FOUND"), (["./plain"], "NOT_EXECUTABLE")):
        command = await inside.start(*argv)
        with pytest.raises(AssertionError, match=reason):
            await command.wait()


async def test_input_arrives_whole_and_its_end_too(inside: Inside) -> None:
    sent = bytes(range(256)) * 4096
    result = await inside.run("sha256sum", stdin=sent)
    assert result.out.split()[0] == hashlib.sha256(sent).hexdigest()


async def test_a_command_without_input_is_at_its_end(inside: Inside) -> None:
    assert (await inside.run("cat")).out == ""


async def test_output_is_complete_on_both_streams(inside: Inside) -> None:
    script = "head -c 3000000 /dev/zero | tr '\\0' o; head -c 2000000 /dev/zero | tr '\\0' e >&2"
    result = await inside.sh(script)
    assert (result.out, result.err) == ("o" * 3_000_000, "e" * 2_000_000)


async def test_a_kill_takes_the_whole_tree(inside: Inside, name: str) -> None:
    """Also a child that left the process group and the session, and one whose parent is gone."""
    script = (
        "setsid sh -c 'while :; do date > left; sleep 0.02; done' & "
        "(sh -c 'while :; do date > orphan; sleep 0.02; done' &) ; "
        "while :; do date > main; sleep 0.02; done"
    )
    command = await inside.start("/bin/sh", "-c", script)
    marks = [inside.workspace / each for each in ("left", "orphan", "main")]
    await until(lambda: all(mark.exists() for mark in marks), "all three are at work")
    assert await command.signal(signal.SIGKILL) >= 3
    assert ended_by(await command.wait(), signal.SIGKILL, name)
    for mark in marks:
        mark.unlink()
    # The others had a hundred chances to write again.
    await asyncio.sleep(0.5)
    assert not [mark.name for mark in marks if mark.exists()]


async def test_a_kill_of_the_rest_leaves_the_command_itself(inside: Inside, name: str) -> None:
    script = (
        "trap '' TERM; setsid sh -c 'while :; do date > left; sleep 0.02; done' & "
        "(sh -c 'while :; do date > orphan; sleep 0.02; done' &) ; read word; echo still $word"
    )
    command = await inside.start("/bin/sh", "-c", script, stdin=b"")
    marks = [inside.workspace / each for each in ("left", "orphan")]
    await until(lambda: all(mark.exists() for mark in marks), "both are at work")
    assert await command.signal(signal.SIGKILL, "rest") >= 2
    for mark in marks:
        mark.unlink()
    await asyncio.sleep(0.3)
    assert not [mark.name for mark in marks if mark.exists()]
    command.write(b"here\n", eof=True)
    assert (await command.wait()).out == "still here\n"


async def test_a_terminal_is_one(inside: Inside) -> None:
    script = "tty -s && stty size; trap 'echo interrupted; exit 7' INT; echo ready; while :; do sleep 0.05; done"
    command = await inside.start("/bin/sh", "-c", script, pty=PtySize(rows=33, cols=101))
    await until(lambda: "ready" in command.out, "the command is ready")
    command.write(b"\x03")
    result = await command.wait()
    assert (result.code, result.signal) == (7, None)
    assert "33 101" in result.out
    assert "interrupted" in result.out


async def test_many_commands_at_once_keep_their_output_apart(inside: Inside) -> None:
    async def one(inside: Inside, number: int) -> str:
        return (await inside.sh(f"for i in 1 2 3 4 5; do echo {number}; done")).out

    outputs = await asyncio.gather(*(one(inside, number) for number in range(20)))
    assert outputs == [f"{number}\n" * 5 for number in range(20)]


async def test_nothing_of_ended_commands_is_left(inside: Inside) -> None:
    for _ in range(20):
        assert (await inside.sh("sleep 0.01 & true")).ok
    counted = "ls -d /proc/[0-9]* | wc -l; cat /proc/[0-9]*/stat 2>/dev/null | grep -c ') Z '"
    await until_quiet(inside, counted)


async def until_quiet(inside: Inside, counted: str) -> None:
    """Slots that wait for their command are processes too, a bounded number of them."""
    async with asyncio.timeout(20):
        while True:
            processes, zombies = map(int, (await inside.sh(counted)).out.split())
            if processes <= 12 and zombies == 0:
                return
