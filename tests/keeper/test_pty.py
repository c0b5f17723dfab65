import signal

import pytest

from contracts.errors import Invalid
from infra.keeper.frame import Kind
from tests.keeper.rig import Result, rig


def shows(text: bytes):  # type: ignore[no-untyped-def]
    return lambda result: text in result.stream(Kind.PTY)


async def test_a_command_with_a_pty_has_a_terminal_of_the_asked_size() -> None:
    async with rig() as made:
        result: Result = await made.final(
            await made.start("sh", "-c", "tty; stty size; test -t 2 && echo yes", rows=33)
        )
        lines = result.stream(Kind.PTY).split(b"\r\n")
        assert lines[0].startswith(b"/dev/pts/")
        assert lines[1:3] == [b"33 80", b"yes"]
        assert result.exit.totals.pty == len(result.stream(Kind.PTY))
        assert result.kinds[-2:] == [Kind.EXIT, Kind.CLOSED]


async def test_a_resize_reaches_the_command_and_the_record() -> None:
    script = "trap 'stty size; exit' WINCH; echo ready; while :; do sleep 0.01; done"
    async with rig() as made:
        exec_id = await made.start("sh", "-c", script, rows=10)
        await made.until(exec_id, shows(b"ready"))
        await made.client.resize(exec_id, 44, 132)
        result = await made.final(exec_id)
        assert b"44 132" in result.stream(Kind.PTY)
        assert Kind.RESIZE in result.kinds
        with pytest.raises(Invalid):
            await made.client.resize(exec_id, 1, 1)


async def test_the_interrupt_character_interrupts() -> None:
    async with rig() as made:
        exec_id = await made.start("sh", "-c", "echo ready; exec sleep 1000", rows=10)
        await made.until(exec_id, shows(b"ready"))
        await made.client.write(exec_id, b"\x03")
        assert (await made.final(exec_id)).exit.signal == signal.SIGINT


async def test_the_end_of_input_ends_a_reader_on_a_terminal() -> None:
    async with rig() as made:
        exec_id = await made.start("sh", "-c", "stty -echo; echo ready; cat", rows=10)
        await made.until(exec_id, shows(b"ready"))
        await made.client.write(exec_id, b"hello\n", eof=True)
        result = await made.final(exec_id)
        assert result.stream(Kind.PTY) == b"ready\r\nhello\r\n"
        assert result.exit.code == 0


async def test_a_command_without_a_pty_cannot_be_resized() -> None:
    async with rig() as made:
        exec_id = await made.start("sleep", "1000")
        with pytest.raises(Invalid):
            await made.client.resize(exec_id, 1, 1)
