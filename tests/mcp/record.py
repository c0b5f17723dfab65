"""What the log says of a sandbox, and what runs in it."""

from contracts import codec, subjects
from contracts.events.command import CommandOutput
from contracts.message import Fact
from infra.bus import reader
from infra.client import Cloche, Sandbox


async def facts(sandbox: Sandbox, *types: str) -> list[tuple[str | None, Fact]]:
    """With the id of whoever asked."""
    found = []
    async for event in sandbox.events(types=types):
        fact = codec.decode_fact(event.head)
        assert fact is not None
        found.append((event.head.correlationid, fact))
    return found


async def until(cloche: Cloche, sandbox: Sandbox, exec_id: str, wanted: type[Fact]) -> Fact:
    """Follows the log of a command until it says so."""
    filters = subjects.events_of(sandbox.id, scope=exec_id)
    async for entry in reader.read(cloche.bus, filters, 1, follow=True):
        fact = codec.decode_fact(codec.decode_head(entry.data))
        if isinstance(fact, wanted):
            return fact
    raise AssertionError("the log ended")


async def begun(sandbox: Sandbox, mark: str) -> str:
    """The exec id of the command whose first output is the mark."""
    async for event in sandbox.events(types=["command.output"], follow=True):
        fact = codec.decode_fact(event.head)
        if isinstance(fact, CommandOutput) and fact.data.startswith(mark):
            return fact.exec
    raise AssertionError("the log ended")


def until_there(name: str) -> str:
    """For the shell: waits for a file."""
    return f"until [ -e {name} ]; do sleep 0.2; done"


async def running(sandbox: Sandbox, line: str) -> list[str]:
    everything = (await sandbox.run("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")).stdout.decode()
    return [line for _ in range(everything.count(line))]
