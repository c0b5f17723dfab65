import asyncio
import hashlib
import os
import signal
from collections.abc import AsyncIterator

import msgspec
import pytest
import pytest_asyncio

from contracts.errors import Invalid
from infra.keeper.frame import Kind
from infra.keeper.protocol import PtySize
from infra.target import DockerTarget
from tests import images
from tests.keeper.docker_rig import docker_rig
from tests.keeper.rig import ENV, Rig

pytestmark = pytest.mark.asyncio(loop_scope="module")

ENDED = [Kind.EXIT, Kind.CLOSED]
SHELLS = [("busybox", "/bin/sh"), ("debian", "/bin/dash"), ("debian", "/bin/bash")]
EVERY_BYTE = "".join(chr(number) for number in range(1, 2048))
HOSTILE = {
    "EMPTY": "",
    "QUOTES": 'it\'s "so" `id` $(id) $HOME \\ \\n ${x:?}',
    "LINES": "\na\n\nb\n\n",
    "SPACES": "  \t a  b \t ",
    "UNICODE": "grüße € 𝄞",
    "DASH": "-n",
    "LONG": "x'\n" * 20_000,
    "EOF": "EOF\nexit 9\n",
    "IFS": ":",
    "OPTIND": "none",
    "PWD": "/nowhere",
    "SHLVL": "x",
    "UID": "0",
    "PPID": "1",
    "BASH_ENV": "/dev/zero",
    "LC_ALL": "C.UTF-8",
    "CLOCHE_EXEC": "forged",
}


def image(name: str) -> str:
    return {"busybox": images.busybox, "debian": images.debian, "shell-less": images.shell_less}[name]()


Made = Rig[DockerTarget]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def made() -> AsyncIterator[Made]:
    """One for all tests that need no more than a shell, and leave it as it was."""
    async with docker_rig(images.busybox()) as (found, _):
        yield found


async def test_bytes_come_through_identical(made: Made) -> None:
    contents = {
        "binary": os.urandom(300_000),
        "invalid": b"ok \xff\xfe \xe2\x82 \xc3" * 50,
        "long": b"x" * 5_000_000,
        "empty": b"",
        "no-newline": "grüße".encode(),
    }
    for name, content in contents.items():
        exec_id = await made.start("cat", exec_id=name, stdin=True)
        for start in range(0, len(content), 500_000):
            assert (await made.client.write(exec_id, content[start : start + 500_000])).accepted
        await made.client.write(exec_id, b"", eof=True)
        result = await made.final(exec_id)
        assert hashlib.sha256(result.stdout).digest() == hashlib.sha256(content).digest(), name
        assert result.exit.totals.stdout == len(content)
        assert result.kinds[-2:] == ENDED


@pytest.mark.parametrize(("name", "shell"), SHELLS)
async def test_a_slot_gives_the_command_its_own_status_streams_and_reasons(name: str, shell: str) -> None:
    async with docker_rig(image(name), shell) as (made, _):
        result = await made.shell("echo out; echo err >&2; exit 3")
        assert (result.stdout, result.stream(Kind.STDERR)) == (b"out\n", b"err\n")
        assert (result.exit.code, result.exit.signal, result.exit.rusage) == (3, None, None)
        for code in (0, 1, 126, 127, 128, 255):
            result = await made.shell(f"exit {code}")
            assert (result.kinds, result.exit.code) == (ENDED, code)
        assert (await made.shell("kill -SEGV $$")).exit.code == 128 + signal.SIGSEGV
        assert (await made.shell("kill -KILL $$")).exit.code == 128 + signal.SIGKILL
        for argv, cwd, reason in (
            (("no-such-program",), "/", "NOT_FOUND"),
            (("/no/such",), "/", "NOT_FOUND"),
            (("",), "/", "NOT_FOUND"),
            (("/etc/passwd",), "/", "NOT_EXECUTABLE"),
            (("/etc",), "/", "NOT_EXECUTABLE"),
            (("true",), "/nowhere", "BAD_CWD"),
            (("true",), "/etc/passwd", "BAD_CWD"),
            (("true", "x" * 200_000), "/", "FAILED"),
        ):
            result = await made.run(*argv, cwd=cwd)
            assert (result.kinds, result.failed.code) == ([Kind.FAILED, Kind.CLOSED], reason), argv


@pytest.mark.parametrize(("name", "shell"), SHELLS)
async def test_arguments_and_environment_are_exact_whatever_they_hold(name: str, shell: str) -> None:
    env = {**ENV, **HOSTILE, "BYTES": EVERY_BYTE}
    arguments = [*HOSTILE.values(), EVERY_BYTE, "--", "-c", "A=b"]
    async with docker_rig(image(name), shell) as (made, _):
        await made.client.start("env", made.target, ["cat", "/proc/self/environ"], env=env, cwd="/")
        given = {name: value.encode("utf-8", "surrogateescape") for name, value in env.items()}
        said = (await made.final("env")).stdout.split(b"\0")
        assert sorted(said) == sorted(
            [b"", *(f"{name}=".encode() + value for name, value in {**given, "CLOCHE_EXEC": b"env"}.items())]
        )
        shown = await made.run("sh", "-c", "cat /proc/$$/cmdline; :", "sh", *arguments)
        assert shown.stdout.split(b"\0")[4:-1] == [text.encode("utf-8", "surrogateescape") for text in arguments]


async def test_a_command_starts_with_a_clean_state() -> None:
    async with docker_rig(images.debian()) as (made, _):
        script = "ls /proc/self/fd | wc -l; umask; pwd; readlink /proc/$$/fd/0; ps -o sid= $$; echo $$"
        result = await made.final(await made.start("sh", "-c", script, cwd="/usr/lib/.."))
        descriptors, umask, cwd, stdin, session, pid = result.stdout.decode().split()
        assert (descriptors, umask, cwd, stdin, session) == ("4", "0022", "/usr", "/dev/null", pid)


async def test_stdin_ends_when_it_is_closed_and_not_before(made: Made) -> None:
    exec_id = await made.start("sh", "-c", "read x; echo got $x; cat; echo end", stdin=True)
    await made.client.write(exec_id, b"one\n")
    await made.until(exec_id, lambda result: result.stdout == b"got one\n")
    await made.client.write(exec_id, b"two\n", eof=True)
    result = await made.final(exec_id)
    assert result.stdout == b"got one\ntwo\nend\n"
    assert (await made.run("cat")).stdout == b""


async def test_what_a_command_does_not_read_waits_outside(made: Made) -> None:
    exec_id = await made.start("sh", "-c", "until [ -e /tmp/go ]; do sleep 0.01; done; wc -c", stdin=True)
    for _ in range(8):
        assert (await made.client.write(exec_id, b"x" * 1_000_000)).accepted
    await made.client.write(exec_id, b"", eof=True)
    await made.run("touch", "/tmp/go")
    assert (await made.final(exec_id)).stdout.strip() == b"8000000"


async def test_eight_at_once_each_get_their_own(made: Made) -> None:
    results = await asyncio.gather(*(made.shell(f"echo {number}; exit {number}") for number in range(8)))
    assert [(result.stdout, result.exit.code) for result in results] == [
        (b"%d\n" % number, number) for number in range(8)
    ]


async def test_memory_is_bounded_while_100_mb_come_out() -> None:
    async with docker_rig(images.busybox()) as (made, _):
        await made.run("true")
        keeper = await made.keeper()
        before = keeper.memory_info().rss
        exec_id = await made.start("sh", "-c", "head -c 104857600 /dev/zero; echo done >&2")
        peak, size = before, 0
        while not (grown := await made.client.wait(exec_id, size + 5_000_000)).final:
            size = grown.size
            peak = max(peak, keeper.memory_info().rss)
        last = made.frames(exec_id)[-2]
        assert msgspec.json.decode(last.payload)["totals"]["stdout"] == 100 * 1024 * 1024
        assert peak - before < 10_000_000


async def test_a_shell_less_image_runs_commands_all_the_same() -> None:
    async with docker_rig(images.shell_less(), None) as (made, _):
        result = await made.run("printf", "%s", "x\n y")
        assert (result.stdout, result.exit.code) == (b"x\n y", 0)
        assert (await made.run("false")).exit.code == 1
        assert (await made.run("no-such-program")).failed.code == "NOT_FOUND"
        assert (await made.run("/etc/passwd")).failed.code == "NOT_EXECUTABLE"
        assert (await made.run("true", cwd="/nowhere")).failed.code == "BAD_CWD"
        exec_id = await made.start("cat", stdin=True)
        await made.client.write(exec_id, b"abc", eof=True)
        assert (await made.final(exec_id)).stdout == b"abc"
        exec_id = await made.start("sleep", "1000")
        assert await made.client.signal(exec_id, signal.SIGKILL) == 1
        assert (await made.final(exec_id)).exit.signal == signal.SIGKILL


async def test_a_shell_that_is_not_there_is_done_without() -> None:
    async with docker_rig(images.shell_less(), "/bin/sh") as (made, _):
        assert (await made.run("printf", "x")).stdout == b"x"
        assert (await made.run("no-such-program")).failed.code == "NOT_FOUND"


async def test_a_program_named_like_an_assignment_is_a_program(made: Made) -> None:
    await made.shell("printf '#!/bin/sh\necho ran' > /tmp/a=b; chmod +x /tmp/a=b")
    assert (await made.run("/tmp/a=b")).stdout == b"ran\n"
    assert (await made.run("A=b")).failed.code == "NOT_FOUND"


async def test_another_start_of_a_container_starts_nothing() -> None:
    async with docker_rig(images.busybox()) as (made, box):
        assert (await made.shell("echo 1")).stdout == b"1\n"
        await box.container.restart(t=0)
        old, made.target = made.target, await box.target()
        assert (await made.shell("echo 2")).stdout == b"2\n"
        made.target = old
        for rows in (None, 10):
            exec_id = await made.start("touch", "/tmp/ran", rows=rows)
            assert (await made.final(exec_id)).failed.code == "WRONG_INSTANCE"
        await box.container.stop(t=0)
        assert (await made.run("true")).failed.code == "SANDBOX_GONE"
        made.target = msgspec.structs.replace(old, container="0" * 64)
        assert (await made.run("true")).failed.code == "SANDBOX_GONE"
        made.target = msgspec.structs.replace(old, engine="unix:///nowhere/docker.sock")
        assert (await made.run("true")).failed.code == "FAILED"


async def test_a_terminal_is_of_the_asked_size_and_follows_it(made: Made) -> None:
    script = "trap 'stty size; exit 4' WINCH; tty; stty size; echo ready; while :; do sleep 0.01; done"
    exec_id = await made.start("sh", "-c", script, rows=33)
    result = await made.until(exec_id, lambda result: b"ready" in result.stream(Kind.PTY))
    assert result.stream(Kind.PTY).split(b"\r\n")[1] == b"33 80"
    await made.client.resize(exec_id, 44, 132)
    result = await made.final(exec_id)
    assert b"44 132" in result.stream(Kind.PTY)
    assert Kind.RESIZE in result.kinds
    assert (result.exit.code, result.exit.totals.pty) == (4, len(result.stream(Kind.PTY)))
    with pytest.raises(Invalid):
        await made.client.resize(exec_id, 1, 1)


async def test_what_is_typed_reaches_the_program_with_control_characters(made: Made) -> None:
    exec_id = await made.start("sh", "-c", "stty -echo; echo ready; cat", rows=10)
    await made.until(exec_id, lambda result: b"ready" in result.stream(Kind.PTY))
    await made.client.write(exec_id, b"hello\n")
    await made.until(exec_id, lambda result: b"hello" in result.stream(Kind.PTY))
    await made.client.write(exec_id, b"\x03")
    assert (await made.final(exec_id)).exit.code == 128 + signal.SIGINT
    exec_id = await made.start("sh", "-c", "stty -echo; echo ready; cat", rows=10)
    await made.until(exec_id, lambda result: b"ready" in result.stream(Kind.PTY))
    await made.client.write(exec_id, b"bye\n", eof=True)
    result = await made.final(exec_id)
    assert (result.stream(Kind.PTY), result.exit.code) == (b"ready\r\nbye\r\n", 0)
    # The engine would keep its usual detach key to itself until the next one.
    exec_id = await made.start("sh", "-c", "stty raw -echo; echo ready; head -c1 | od -An -tx1", rows=10)
    await made.until(exec_id, lambda result: b"ready" in result.stream(Kind.PTY))
    await made.client.write(exec_id, b"\x10")
    assert b" 10" in (await made.final(exec_id)).stream(Kind.PTY)


async def test_an_editor_can_be_used_on_a_terminal() -> None:
    async with docker_rig(images.debian()) as (made, _):
        env = {**ENV, "TERM": "xterm", "HOME": "/tmp"}
        await made.client.start("vi", made.target, ["vi", "/tmp/text"], env=env, cwd="/", pty=PtySize(rows=24, cols=80))
        await made.until("vi", lambda result: b"[New File]" in result.stream(Kind.PTY))
        await made.client.write("vi", b"ihello from vi\x1b:wq\r")
        assert (await made.final("vi")).exit.code == 0
        assert (await made.run("cat", "/tmp/text")).stdout == b"hello from vi\n"


async def test_a_command_on_a_terminal_that_cannot_start_says_why(made: Made) -> None:
    for argv, reason in ((("no-such-program",), "NOT_FOUND"), (("/etc/passwd",), "NOT_EXECUTABLE")):
        result = await made.final(await made.start(*argv, rows=10))
        assert (result.kinds, result.failed.code) == ([Kind.FAILED, Kind.CLOSED], reason)
