"""Calls of tools and commands: which question got which answer."""

import hashlib
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import Struct

from contracts.errors import SandboxFileNotFound
from contracts.events import command
from contracts.events.agent import AgentToolResult, AgentToolUse
from contracts.events.tool import ToolInvoked, ToolReturned
from services.guardian.bounded import with_entry, without

T = TypeVar("T")

OPEN_CALLS = 256
NAME_CHARACTERS = 100
COMMANDS = "/commands"
TOOLS = "/tools"
"""Lanes that are no run's: no run can have such a name."""
NO = 1
"""The code by which `test`, `grep -q`, `pgrep` and their like say no."""
ENDS = frozenset(
    {
        "agent.tool_result", "tool.returned", "command.completed", "command.timed_out", "command.lost",
        "command.rejected",
    }
)  # fmt: skip
"""Of calls that have an answer."""
TAGS = ENDS | {"agent.tool_use", "tool.invoked", "command.started", "command.cancelled"}

_encoder = msgspec.json.Encoder(order="deterministic")


class Call(NamedTuple):
    lane: str
    """What it can be compared with: the calls of the same run (or of one subagent in it), other file operations, other
    commands."""
    run: str | None
    tool: str
    print: str
    """Fingerprint of the tool, its arguments and the result. Of a command's result only its exit and how much it wrote
    are known here."""
    ok: bool
    evidence: tuple[int, int]
    lasted_ms: int = 0


class Asked(Struct, frozen=True):
    sequence: int
    at_ms: int
    tool: str
    question: str
    within: str = ""
    """The call whose subagent asks."""


class OpenCalls(Struct, frozen=True):
    asked: Mapping[str, Asked] = {}


class Paired(NamedTuple):
    open: OpenCalls
    call: Call | None


class _Ended(NamedTuple):
    of: str
    id: str
    answer: str
    ok: bool
    tool: str = ""


def fingerprint(*parts: Any) -> str:
    """Of anything that can be JSON. The same in every process."""
    digest = hashlib.blake2b(digest_size=8)
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else _encoded(part)
        digest.update(b"%d:" % len(raw))
        digest.update(raw)
    return digest.hexdigest()


def _encoded(part: Any) -> bytes:
    try:
        return _encoder.encode(part)
    except (OverflowError, UnicodeEncodeError, RecursionError):
        # JSON has numbers that nobody here can write again.
        return repr(part).encode("utf-8", "surrogatepass")


def brief(name: str) -> str:
    """Names come from runtimes and models: what is kept of one must not be as long as they like."""
    return name if len(name) <= NAME_CHARACTERS else fingerprint(name)


def without_run(lanes: Mapping[str, T], run: str) -> Mapping[str, T]:
    """Without what is kept of this run, and of the subagents in it."""
    return {lane: kept for lane, kept in lanes.items() if lane != run and not lane.startswith(f"{run}/")}


def pair(open_calls: OpenCalls, sequence: int, at_ms: int, fact: object) -> Paired:
    """A call that this fact ends; one that it begins is remembered, the newest `OPEN_CALLS` of them."""
    match fact:
        case AgentToolUse():
            question = fingerprint(fact.tool, fact.input)
            asked = Asked(sequence, at_ms, brief(fact.tool), question, brief(fact.parent or ""))
            return _begin(open_calls, f"{brief(fact.run)}/{brief(fact.call)}", asked)
        case ToolInvoked():
            asked = Asked(sequence, at_ms, brief(fact.tool), fingerprint(fact.tool, fact.arguments))
            return _begin(open_calls, f"{TOOLS}/{brief(fact.call)}", asked)
        case command.CommandStarted():
            asked = Asked(sequence, at_ms, "command", fingerprint(fact.argv))
            return _begin(open_calls, f"{COMMANDS}/{brief(fact.exec)}", asked)
        case command.CommandCancelled():
            # Whoever ended it knows why: it is no answer to anything.
            return Paired(OpenCalls(without(open_calls.asked, f"{COMMANDS}/{brief(fact.exec)}")), None)
    ended = _ended(fact)
    return Paired(open_calls, None) if ended is None else _end(open_calls, sequence, at_ms, ended)


def _begin(open_calls: OpenCalls, key: str, asked: Asked) -> Paired:
    return Paired(OpenCalls(with_entry(open_calls.asked, key, asked, OPEN_CALLS)), None)


def _end(open_calls: OpenCalls, sequence: int, at_ms: int, ended: _Ended) -> Paired:
    key = f"{ended.of}/{brief(ended.id)}"
    run = None if ended.of in (COMMANDS, TOOLS) else ended.of
    # An answer to a question that nobody heard is like no other.
    unheard = Asked(sequence, at_ms, ended.tool, fingerprint(ended.tool if run is None else sequence))
    asked = open_calls.asked.get(key, unheard)
    call = Call(
        lane=f"{ended.of}/{asked.within}" if asked.within else ended.of,
        run=run,
        tool=asked.tool,
        print=asked.question + ended.answer,
        ok=ended.ok,
        evidence=(asked.sequence, sequence),
        lasted_ms=max(0, at_ms - asked.at_ms),
    )
    return Paired(OpenCalls(without(open_calls.asked, key)), call)


def _ended(fact: object) -> _Ended | None:
    match fact:
        case AgentToolResult():
            return _Ended(brief(fact.run), fact.call, fingerprint(fact.ok, fact.output), fact.ok)
        case ToolReturned():
            answer = fingerprint(fact.summary, fact.failure)
            is_answer = fact.failure is None or fact.failure.code == SandboxFileNotFound.code
            return _Ended(TOOLS, fact.call, answer, is_answer, brief(fact.tool))
        case command.CommandCompleted():
            return _Ended(COMMANDS, fact.exec, fingerprint(fact.exit, fact.totals), _is_answer(fact))
        case command.CommandTimedOut() | command.CommandLost():
            return _Ended(COMMANDS, fact.exec, fingerprint(type(fact).__name__, fact.totals), False)
        case command.CommandRejected():
            return _Ended(COMMANDS, fact.exec, fingerprint(fact.failure.code, fact.failure.message), False)
    return None


def _is_answer(fact: command.CommandCompleted) -> bool:
    """What says no without another word has not failed: somebody asked, and waits."""
    wrote = fact.totals.stdout + fact.totals.stderr + fact.totals.pty
    return fact.exit.code == 0 or (fact.exit.code == NO and wrote == 0)
