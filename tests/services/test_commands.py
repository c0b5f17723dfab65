"""Commands through the whole node: client, NATS, executor, keeper, sandbox, and back through the log."""

import asyncio
import hashlib
import os
import random
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from contracts import codec, subjects
from contracts.commands.command import PtySize, Scope, SignalCommand
from contracts.errors import Invalid, SandboxExecFailed, SandboxInvalidState
from contracts.events.command import CommandInput, CommandOutput, CommandStarted
from contracts.message import Command, Fact
from contracts.proof import Proof
from contracts.streams import COMMANDS_STREAM
from infra import clock
from infra.bus import reader
from infra.bus.publisher import append
from infra.client import Cloche, Sandbox
from infra.ids import new_id
from tests.services.node import node_in

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("node")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cloche(data: Path) -> AsyncIterator[Cloche]:
    async with node_in(data) as (_, cloche):
        yield cloche


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox(cloche: Cloche) -> Sandbox:
    return await cloche.create(id="shared")


async def facts(cloche: Cloche, sandbox: Sandbox, exec_id: str) -> list[Fact]:
    found = []
    async for entry in reader.read(cloche.bus, subjects.events_of(sandbox.id, scope=exec_id), 1, follow=False):
        fact = codec.decode_fact(codec.decode_head(entry.data))
        assert fact is not None
        found.append(fact)
    return found


async def verified(cloche: Cloche, sandbox: Sandbox) -> Proof:
    proof = Proof()
    async for entry in reader.read(cloche.bus, subjects.events_of(sandbox.id), 1, follow=False):
        proof.feed(entry.seq, codec.decode_head(entry.data))
    return proof


async def test_each_stream_arrives_on_its_own_and_the_exit_code_is_real(sandbox: Sandbox) -> None:
    result = await sandbox.run("echo out; echo err >&2; exit 3")
    assert (result.stdout, result.stderr, result.exit_code, result.outcome) == (b"out\n", b"err\n", 3, "completed")


async def test_an_argv_is_run_as_it_is(sandbox: Sandbox) -> None:
    result = await sandbox.run(["printf", "%s|", "a b", "$HOME", "", "ü"])
    assert result.stdout == "a b|$HOME||ü|".encode()


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"no newline",
        b"\x00\x01\xff\xfe" * 1000,
        "zwölf Böse 🎉".encode() * 3000,
        b"\xf0\x9f\x8e",
        b"\r\n\t\x1b[31m",
    ],
    ids=["empty", "no-newline", "binary", "utf8", "half-a-character", "control"],
)
async def test_bytes_come_back_identical(sandbox: Sandbox, sent: bytes) -> None:
    result = await sandbox.run(["cat"], input=sent)
    assert result.stdout == sent


async def test_megabytes_of_random_bytes_come_back_identical_and_verified(cloche: Cloche, sandbox: Sandbox) -> None:
    script = "import random,sys; r=random.Random(7); [sys.stdout.buffer.write(r.randbytes(99991)) for _ in range(200)]"
    generator = random.Random(7)
    expected = hashlib.sha256(b"".join(generator.randbytes(99991) for _ in range(200))).hexdigest()
    result = await sandbox.run(["python3", "-c", script])
    assert result.exit_code == 0
    assert hashlib.sha256(result.stdout).hexdigest() == expected
    assert not (await verified(cloche, sandbox)).summary().findings


async def test_megabytes_of_input_arrive_whole(sandbox: Sandbox) -> None:
    data = random.Random(11).randbytes(3 * 1024 * 1024)
    result = await sandbox.run("sleep 0.3; sha256sum", input=data)
    assert result.stdout.split()[0].decode() == hashlib.sha256(data).hexdigest()


async def test_what_is_typed_is_on_the_record_where_it_was_typed(cloche: Cloche, sandbox: Sandbox) -> None:
    execution = await sandbox.start(["cat"], stdin=True)
    await execution.write(b"one\n")
    async for chunk in execution.output():
        if chunk.data == b"one\n":
            await execution.write(b"two\n")
        if chunk.data == b"two\n":
            await execution.close_stdin()
    record = [
        fact for fact in await facts(cloche, sandbox, execution.id) if isinstance(fact, CommandInput | CommandOutput)
    ]
    assert [(type(fact).__name__, fact.offset, fact.data) for fact in record] == [
        ("CommandInput", 0, "one\n"),
        ("CommandOutput", 0, "one\n"),
        ("CommandInput", 4, "two\n"),
        ("CommandOutput", 4, "two\n"),
        ("CommandInput", 8, ""),
    ]


async def test_a_signal_is_told_as_a_signal(sandbox: Sandbox) -> None:
    result = await sandbox.run("kill -SEGV $$")
    assert (result.exit_code, result.signal, result.shell_code) == (None, signal.SIGSEGV, 139)


async def test_a_time_limit_ends_the_whole_tree_and_says_so(sandbox: Sandbox) -> None:
    result = await sandbox.run("echo before; setsid sleep 777 & sleep 778", timeout_ms=300)
    assert (result.outcome, result.stdout, result.shell_code) == ("timed_out", b"before\n", 124)
    left = await sandbox.run("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
    assert b"sleep 77" not in left.stdout.replace(b"tr \\0", b"")


async def test_a_cancelled_command_is_recorded_as_cancelled_with_its_real_end(sandbox: Sandbox) -> None:
    execution = await sandbox.start("trap 'echo bye; exit 9' TERM; echo go; while :; do sleep 0.05; done")
    async for chunk in execution.output():
        if b"go" in chunk.data:
            await execution.cancel(reason="enough")
    assert execution.result is not None
    assert (execution.result.outcome, execution.result.cause) == ("cancelled", "enough")
    assert execution.result.exit_code == 9 or execution.result.signal == signal.SIGTERM


async def test_a_cancelled_command_that_does_not_listen_is_killed_after_the_grace(sandbox: Sandbox) -> None:
    execution = await sandbox.start("trap '' TERM; echo go; while :; do sleep 0.05; done")
    async for chunk in execution.output():
        if b"go" in chunk.data:
            await execution.cancel(grace_ms=200)
    assert execution.result is not None
    assert (execution.result.outcome, execution.result.signal) == ("cancelled", signal.SIGKILL)


async def test_a_plain_signal_reaches_the_command(sandbox: Sandbox) -> None:
    execution = await sandbox.start("trap 'echo usr1; exit 0' USR1; echo go; while :; do sleep 0.05; done")
    seen = b""
    async for chunk in execution.output():
        seen += chunk.data
        if chunk.data == b"go\n":
            await execution.signal(signal.SIGUSR1, scope=Scope.MAIN)
    assert seen == b"go\nusr1\n"
    assert execution.result is not None
    assert execution.result.outcome == "completed"


async def test_a_signal_that_is_ordered_again_later_is_the_same_order(cloche: Cloche, sandbox: Sandbox) -> None:
    execution = await sandbox.start("trap 'echo one' USR1; trap 'exit 0' USR2; echo go; while :; do sleep 0.05; done")
    order = SignalCommand(exec=execution.id, signal=signal.SIGUSR1, scope=Scope.MAIN)
    command = Command(
        id=new_id("c"), source="tests", type="command.signal", time=clock.now(), sandboxid=sandbox.id, data=order
    )
    subject = subjects.command(sandbox.state.node, sandbox.id, "command", "signal")
    seen = b""
    async for chunk in execution.output():
        seen += chunk.data
        # The queue takes it again, as once it has forgotten the id.
        await append(cloche.bus, subject, codec.encode(command), new_id("m"), stream=COMMANDS_STREAM)
        if seen == b"go\none\n":
            await execution.signal(signal.SIGUSR2, scope=Scope.MAIN)
    assert seen == b"go\none\n"


async def test_a_terminal_is_a_terminal_and_can_be_resized(sandbox: Sandbox) -> None:
    script = "test -t 0 && echo tty; stty size; read line; stty size; echo got $line"
    execution = await sandbox.start(script, stdin=True, pty=PtySize(rows=33, cols=44))
    seen = b""
    async for chunk in execution.output():
        seen += chunk.data
        if seen.endswith(b"33 44\r\n"):
            await execution.resize(55, 66)
            await execution.write(b"hello\n")
    assert b"tty\r\n33 44\r\n" in seen
    assert b"55 66\r\n" in seen
    assert b"got hello" in seen


async def test_cwd_and_environment_are_the_commands_own(sandbox: Sandbox) -> None:
    result = await sandbox.run('pwd; echo "$MINE:$IS_SANDBOXED"', cwd="/tmp", env={"MINE": "x y"})
    assert result.stdout == b"/tmp\nx y:true\n"


async def test_values_of_the_environment_are_not_on_the_record(cloche: Cloche, sandbox: Sandbox) -> None:
    result = await sandbox.run("true", env={"TOKEN": "s3cr3t-value"})
    begun = (await facts(cloche, sandbox, result.exec))[0]
    assert isinstance(begun, CommandStarted)
    assert begun.environment == ("TOKEN",)
    async for entry in reader.read(cloche.bus, subjects.events_of(sandbox.id), 1, follow=False):
        assert b"s3cr3t-value" not in entry.data


async def test_a_missing_program_is_rejected_with_its_name(sandbox: Sandbox) -> None:
    with pytest.raises(SandboxExecFailed, match="no-such-program"):
        await sandbox.run(["no-such-program"])


async def test_a_blocked_variable_is_refused_by_name(sandbox: Sandbox) -> None:
    with pytest.raises(Invalid, match="AWS_SECRET_ACCESS_KEY"):
        await sandbox.run("true", env={"AWS_SECRET_ACCESS_KEY": "x"})


async def test_background_processes_live_on_and_stay_on_the_record(cloche: Cloche, sandbox: Sandbox) -> None:
    first = await sandbox.run("(sleep 0.6; echo later) & echo now")
    assert first.stdout == b"now\n"
    end = first.sequence
    async for entry in reader.read(cloche.bus, subjects.events_of(sandbox.id, scope=first.exec), end + 1, follow=True):
        fact = codec.decode_fact(codec.decode_head(entry.data))
        assert isinstance(fact, CommandOutput)
        assert (fact.data, fact.offset, fact.after_exit) == ("later\n", 4, True)
        break
    assert not (await verified(cloche, sandbox)).summary().findings


async def test_commands_run_side_by_side(sandbox: Sandbox) -> None:
    results = await asyncio.gather(*(sandbox.run(f"sleep 0.2; echo {number}") for number in range(20)))
    assert [result.stdout for result in results] == [b"%d\n" % number for number in range(20)]


async def test_commands_share_files_and_loopback(sandbox: Sandbox) -> None:
    await sandbox.run("echo shared > /tmp/note; echo kept > kept")
    assert (await sandbox.run("cat /tmp/note /workspace/kept")).stdout == b"shared\nkept\n"


async def test_a_late_reader_gets_everything_from_the_start(cloche: Cloche, sandbox: Sandbox) -> None:
    result = await sandbox.run("for i in 1 2 3; do echo $i; sleep 0.05; done")
    again = await (await cloche.sandbox(sandbox.id)).execution(result.exec).wait()
    assert again.stdout == b"1\n2\n3\n"


async def test_the_record_outlives_the_sandbox(cloche: Cloche) -> None:
    sandbox = await cloche.create()
    result = await sandbox.run("echo remembered")
    await sandbox.remove()
    found = await cloche.sandbox(sandbox.id)
    assert found.state.status == "removed"
    assert (await found.execution(result.exec).wait()).stdout == b"remembered\n"
    with pytest.raises(SandboxInvalidState, match="removed"):
        await found.run("true")


async def test_spools_are_removed_once_the_log_has_it_all(data: Path, sandbox: Sandbox) -> None:
    await sandbox.run("echo gone")
    async with asyncio.timeout(10):
        while os.listdir(data / "keeper" / "execs"):
            await asyncio.sleep(0.02)


@pytest.mark.skipif(os.geteuid() != 0, reason="memory is held by a control group only where one can be made")
async def test_a_command_that_runs_out_of_memory_says_so_and_one_that_was_killed_does_not(tmp_path: Path) -> None:
    hog = "x = []\nwhile True: x.append(bytearray(b'1' * (16 << 20)))"
    async with node_in(tmp_path) as (_, cloche):
        sandbox = await cloche.create({"resources": {"memory_mb": 512}})
        result = await sandbox.run(["python3", "-c", hog])
        assert (result.signal, result.cause) == (9, "oom")
        killed = await sandbox.run("kill -9 $$")
        assert (killed.signal, killed.cause) == (9, "signal 9")
