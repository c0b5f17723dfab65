"""A session as its log has it: commands, an agent, files, network, some of it as hostile as it gets."""

import datetime
from collections.abc import Iterator

from contracts.errors import Failure
from contracts.events import agent, command, file, guardian, health, network, sandbox
from contracts.message import Fact
from contracts.payload import pack
from contracts.spec import Isolation, SandboxSpec
from infra.bus.connection import Bus
from infra.journal import Journal

SANDBOX = "sb-page"
START = datetime.datetime(2026, 3, 14, 9, 0, tzinfo=datetime.UTC)
ATTACKS = (
    "<script>window.taken = 1</script>",
    "</script><script>window.taken = 1</script>",
    "<img src=x onerror='window.taken = 1'>",
    "<!--<script>",
    "\u202egnp.exe\u2066",
    "\x1b]0;title\x07\x1b[31mred\x1b[0m\x9b31m",
    '" onmouseover="window.taken = 1',
    "javascript:window.taken=1",
)
DIFF = "--- a/greeting.txt\n+++ b/greeting.txt\n@@ -1,2 +1,2 @@\n hello\n-wrold\n+world\n"
HUGE_LINE = "x" * 700_000


async def write_session(bus: Bus) -> None:
    """All of it, by the hand of whoever may write anything."""
    journal = Journal(bus, service="test", node="local")
    at = START
    for number, (pause_ms, fact) in enumerate(session()):
        at += datetime.timedelta(milliseconds=pause_ms)
        await journal.append(journal.write(SANDBOX, fact, id=str(number), time=at))


def session() -> Iterator[tuple[int, Fact]]:
    """Each with the milliseconds before it."""
    yield 0, sandbox.SandboxCreating(spec=SandboxSpec(), isolation=Isolation.LOCAL, node="local")
    yield 40, sandbox.SandboxCreated(node="local", isolation=Isolation.LOCAL, workspace="/workspace")
    yield 60, sandbox.SandboxStarted(instance="life-1")
    yield 30, file.FileReady(files=0)
    yield from _build()
    yield from _agent()
    yield from _editor()
    yield from _columns()
    yield from _hostile()
    yield 500, health.HealthDied(cause=health.DeathCause.OOM, detail="out of memory", instance="life-1")
    yield 90_000, sandbox.SandboxStopped(reason="asked")


def _run(exec_id: str, *argv: str, pty: command.TerminalSize | None = None) -> command.CommandStarted:
    return command.CommandStarted(exec=exec_id, argv=argv, cwd="/workspace", pty=pty)


class _Writer:
    def __init__(self, exec_id: str, stream: command.Stream = command.Stream.STDOUT) -> None:
        self._exec = exec_id
        self._stream = stream
        self.size = 0

    def __call__(self, text: str) -> command.CommandOutput:
        raw = text.encode()
        packed = pack(raw)
        at, self.size = self.size, self.size + len(raw)
        return command.CommandOutput(
            exec=self._exec, stream=self._stream, offset=at, size=len(raw), data=packed.data, encoding=packed.encoding
        )

    def done(self, code: int = 0) -> command.CommandCompleted:
        totals = command.Totals(**{self._stream.value: self.size})
        return command.CommandCompleted(exec=self._exec, exit=command.Exit(code=code), duration_ms=812.0, totals=totals)


def _build() -> Iterator[tuple[int, Fact]]:
    out = _Writer("e-build")
    yield 300, _run("e-build", "make", "-j2", "all")
    for number in range(60):
        yield 45, out(f"\x1b[32m[{number:>3}%]\x1b[0m building \x1b[1mobject_{number}.o\x1b[0m\n")
    yield 100, out("\x1b[1;31merror:\x1b[0m \x1b[38;5;208mundeclared\x1b[0m \x1b[4mwrold\x1b[0m\n")
    yield 20, out.done(2)
    facts = file.FileFacts(size=12, mode=0o644, sha256="0" * 64, diff=DIFF)
    yield 200, file.FileModified(path="/workspace/greeting.txt", facts=facts)


def _agent() -> Iterator[tuple[int, Fact]]:
    yield 400, agent.AgentStarted(run="r-1", runtime="script", prompt="Repair the build")
    yield 300, agent.AgentMessage(run="r-1", text="The word is misspelled; I correct it.")
    yield 200, agent.AgentToolUse(run="r-1", call="c-1", tool="edit", input={"path": "greeting.txt", "new": "world"})
    yield 100, agent.AgentApprovalRequested(run="r-1", approval="a-1", tool="edit", reason="it writes")
    yield 900, agent.AgentApproved(run="r-1", approval="a-1", by="user")
    yield 150, agent.AgentToolResult(run="r-1", call="c-1", ok=True, output="edited")
    yield 50, agent.AgentMetrics(run="r-1", input_tokens=900, output_tokens=120, cost_usd=0.0123, turns=1)
    yield 300, network.NetworkAllowed(host="pypi.example", port=443, method="GET", path="/simple", status=200)
    yield 30, network.NetworkDenied(host="evil.example", port=443, method="CONNECT", reason="not allowed")
    yield 30, guardian.GuardianObserved(rule="repeated_call", finding="the same call again", evidence=(5, 6))
    yield 30, agent.AgentCompleted(run="r-1", reason="done", result="repaired")


def _editor() -> Iterator[tuple[int, Fact]]:
    out = _Writer("e-edit", command.Stream.PTY)
    yield 700, _run("e-edit", "vi", "greeting.txt", pty=command.TerminalSize(rows=16, cols=60))
    yield 80, out("\x1b[?1049h\x1b[H\x1b[2Jhello\r\nworld\r\n\x1b[34m~\x1b[0m\r\n\x1b[34m~\x1b[0m")
    yield 600, out("\x1b[16;1H\x1b[7m greeting.txt  1,1  All \x1b[0m\x1b[1;1H")
    yield 900, out("\x1b[?1049l")
    yield 20, out.done()


def _columns() -> Iterator[tuple[int, Fact]]:
    out = _Writer("e-columns")
    yield 300, _run("e-columns", "columns")
    yield 10, out("│abc de│\n│漢字ab│\n│\x1b[2m👍\x1b[0m ok │\n")
    yield 40, out.done()


def _hostile() -> Iterator[tuple[int, Fact]]:
    out = _Writer("e-bad")
    yield 500, _run("e-bad", "sh", "-c", ATTACKS[0])
    for attack in ATTACKS:
        yield 30, out(f"{attack}\n")
        yield 5, agent.AgentMessage(run="r-1", text=attack)
        facts = file.FileFacts(size=1, mode=0o644, diff=f"--- a\n+++ b\n@@ -0,0 +1 @@\n+{attack}\n")
        yield 5, file.FileModified(path=f"/workspace/{attack}", facts=facts)
        failure = Failure(code="INVALID", message=attack)
        yield 5, file.FileError(path=attack, failure=failure)
    yield 30, out(HUGE_LINE)
    yield 30, out.done()
