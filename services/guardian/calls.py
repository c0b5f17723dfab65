"""Calls of tools and commands: which question got which answer."""

import hashlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from contracts.events import command
from contracts.events.agent import AgentToolResult, AgentToolUse
from contracts.events.tool import ToolInvoked, ToolReturned
from services.guardian.bounded import with_entry, without

OPEN_CALLS = 256
NAME_CHARACTERS = 100
COMMANDS = "command"
TOOLS = "tool"
TAGS = frozenset(
    {
        "agent.tool_use", "agent.tool_result", "tool.invoked", "tool.returned",
        "command.started", "command.completed", "command.timed_out", "command.lost", "command.rejected",
        "command.cancelled",
    }
)  # fmt: skip

_encoder = msgspec.json.Encoder(order="deterministic")


class Call(NamedTuple):
    lane: str
    """What it can be compared with: the calls of the same run, other file operations, other commands."""
    run: str | None
    tool: str
    print: str
    """Fingerprint of the tool, its arguments and the result. Of a command's result only its exit and how much it wrote
    are known here."""
    ok: bool
    evidence: tuple[int, int]


class Asked(Struct, frozen=True):
    sequence: int
    tool: str
    question: str


class OpenCalls(Struct, frozen=True):
    asked: Mapping[str, Asked] = {}


class Paired(NamedTuple):
    open: OpenCalls
    call: Call | None


class _Ended(NamedTuple):
    lane: str
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


def pair(open_calls: OpenCalls, sequence: int, fact: object) -> Paired:
    """A call that this fact ends; one that it begins is remembered, the newest `OPEN_CALLS` of them."""
    match fact:
        case AgentToolUse():
            asked = Asked(sequence, brief(fact.tool), fingerprint(fact.tool, fact.input))
            return _begin(open_calls, f"{brief(fact.run)}/{brief(fact.call)}", asked)
        case ToolInvoked():
            asked = Asked(sequence, brief(fact.tool), fingerprint(fact.tool, fact.arguments))
            return _begin(open_calls, f"{TOOLS}/{brief(fact.call)}", asked)
        case command.CommandStarted():
            asked = Asked(sequence, "command", fingerprint(fact.argv))
            return _begin(open_calls, f"{COMMANDS}/{brief(fact.exec)}", asked)
    ended = _ended(fact)
    return Paired(open_calls, None) if ended is None else _end(open_calls, sequence, ended)


def _begin(open_calls: OpenCalls, key: str, asked: Asked) -> Paired:
    return Paired(OpenCalls(with_entry(open_calls.asked, key, asked, OPEN_CALLS)), None)


def _end(open_calls: OpenCalls, sequence: int, ended: _Ended) -> Paired:
    key = f"{ended.lane}/{brief(ended.id)}"
    asked = open_calls.asked.get(key) or Asked(sequence, ended.tool, fingerprint(ended.tool))
    run = None if ended.lane in (COMMANDS, TOOLS) else ended.lane
    call = Call(ended.lane, run, asked.tool, asked.question + ended.answer, ended.ok, (asked.sequence, sequence))
    return Paired(OpenCalls(without(open_calls.asked, key)), call)


def _ended(fact: object) -> _Ended | None:
    match fact:
        case AgentToolResult():
            return _Ended(brief(fact.run), fact.call, fingerprint(fact.ok, fact.output), fact.ok)
        case ToolReturned():
            answer = fingerprint(fact.summary, fact.failure)
            return _Ended(TOOLS, fact.call, answer, fact.failure is None, brief(fact.tool))
        case command.CommandCompleted():
            return _Ended(COMMANDS, fact.exec, fingerprint(fact.exit, fact.totals), fact.exit.code == 0)
        case command.CommandTimedOut() | command.CommandLost():
            return _Ended(COMMANDS, fact.exec, fingerprint(type(fact).__name__, fact.totals), False)
        case command.CommandRejected():
            return _Ended(COMMANDS, fact.exec, fingerprint(fact.failure.code, fact.failure.message), False)
    return None
