"""The main job, shown: a sandbox, live output, a crash survived, the replay, the proof."""

import os
import signal
import sys
import tempfile
from pathlib import Path

import msgspec
from rich.console import Console
from rich.text import Text

from contracts import codec, subjects
from contracts.proof import Proof, Summary
from contracts.spec import Isolation
from infra.bus import reader
from infra.client import Cloche, CommandResult, Execution, Sandbox
from infra.configuration import load
from infra.embedded import store
from infra.embedded.process import Identity, wait_end
from infra.keeper.launcher import end_keeper
from infra.realms import parts
from infra.settings import Settings
from services.cli import daemon
from services.cli.running import find
from services.cli.show import event_line

STEPS = 8
COUNTING = f"for i in $(seq 1 {STEPS}); do echo step $i of {STEPS}; sleep 0.4; done; echo done"
EXPECTED = b"".join(b"step %d of %d\n" % (step, STEPS) for step in range(1, STEPS + 1)) + b"done\n"

console = Console(highlight=False)


def title(text: str) -> None:
    console.print()
    console.print(Text(text, style="bold cyan"))


def note(text: str) -> None:
    console.print(Text(f"  {text}", style="dim"))


async def play() -> int:
    """0 when everything went as promised."""
    with tempfile.TemporaryDirectory(prefix="cloche-demo-") as directory:
        settings = msgspec.structs.replace(load(os.environ), data=Path(directory), port=0, url=None)
        await daemon.start(settings)
        try:
            return await _story(settings)
        finally:
            await daemon.stop(settings)
            await _end_keeper(settings)


async def _story(settings: Settings) -> int:
    title("1. A sealed sandbox")
    async with Cloche.connect(settings) as cloche:
        sandbox = await cloche.create({"isolation": Isolation.LOCAL}, id="demo")
        note(f"{sandbox.id} is {sandbox.state.status}, by {sandbox.state.isolation}")
        for limit, by in sandbox.state.enforcement.items():
            note(f"{limit:<8} {by}")
        title("2. Commands, with live output")
        for command in ("id -un; hostname; ls -A / | tr '\\n' ' '", "echo to stdout; echo to stderr >&2; exit 3"):
            await _show(sandbox, command)
        title("3. What is sealed stays sealed")
        await _show(
            sandbox, "cat /etc/shadow; touch /usr/mine; kill -9 1; echo pid 1 is still $(ps -o comm= 1 || echo there)"
        )
        exec_id = await _half(cloche, sandbox)
    note("SIGKILL to every service and to NATS, in the middle of the command")
    await _crash(settings)
    note("started again; the command never noticed")
    await daemon.start(settings)
    async with Cloche.connect(settings) as cloche:
        sandbox = await cloche.sandbox("demo")
        whole = await _rest(sandbox, exec_id)
        await sandbox.remove(reason="the demo is over")
        summary = await _replay(cloche)
        return _close(whole, summary)


async def _show(sandbox: Sandbox, command: str) -> CommandResult:
    console.print(Text(f"  $ {command}", style="green"), soft_wrap=True)
    execution = await sandbox.start(command)
    async for chunk in execution.output():
        for line in chunk.data.decode("utf-8", "replace").splitlines():
            console.print(Text(f"    {line}", style="red" if chunk.stream == "stderr" else ""))
    assert execution.result is not None
    note(f"exit code {execution.result.exit_code} in {execution.result.duration_ms:.0f} ms")
    return execution.result


async def _half(cloche: Cloche, sandbox: Sandbox) -> str:
    title("4. A crash in the middle")
    console.print(Text(f"  $ {COUNTING}", style="green"))
    execution = await sandbox.start(COUNTING)
    async for chunk in execution.output():
        console.print(Text(f"    {chunk.data.decode().rstrip()}"))
        if b"step 3" in chunk.data:
            return execution.id
    raise AssertionError(f"{cloche} lost a running command")


async def _crash(settings: Settings) -> None:
    running, server = find(settings.data), store.read_record(settings.data)
    assert running is not None
    assert server is not None
    for victim in (running.identity, Identity(server.pid, server.started)):
        os.kill(victim.pid, signal.SIGKILL)
        await wait_end(victim)


async def _rest(sandbox: Sandbox, exec_id: str) -> bytes:
    execution: Execution = sandbox.execution(exec_id)
    whole = b""
    async for chunk in execution.output():
        whole += chunk.data
        console.print(Text(f"    {chunk.data.decode().rstrip()}"))
    return whole


async def _replay(cloche: Cloche) -> Summary:
    title("5. The sandbox is gone; its record is not")
    proof = Proof()
    async for entry in reader.read(cloche.bus_of("demo"), [subjects.LOG], 1, follow=False):
        head = codec.decode_head(entry.data)
        proof.feed(entry.seq, head)
        event_line(entry.seq, head)
    return proof.summary()


def _close(whole: bytes, summary: Summary) -> int:
    title("6. The proof")
    complete = whole == EXPECTED and not summary.findings and not summary.open
    note(f"{summary.events} events, {summary.commands} commands, each ended exactly once, {summary.bytes} bytes")
    note(
        f"the interrupted command: {len(whole)} of {len(EXPECTED)} bytes,"
        f" {'identical' if whole == EXPECTED else 'WRONG'}"
    )
    console.print(Text("  verify: complete" if complete else f"  verify: {summary.findings}", style="bold green"))
    title("You have just seen")
    for line in (
        "a sandbox with no network but by name, no root, no secrets, and limits that say what enforces them",
        "a command that outlived every service and the message bus",
        "the whole session read again from the log, after the sandbox was removed",
        "the proof that no byte is missing and none is there twice",
    ):
        console.print(Text(f"  • {line}"), soft_wrap=True)
    console.print(Text("\nNext: ./cloche run -- sh    ./cloche up -d && ./cloche open    ./cloche --help"))
    return 0 if complete else 1


async def _end_keeper(settings: Settings) -> None:
    for part in parts(settings):
        await end_keeper(part.data, force=True)
    sys.stdout.flush()
