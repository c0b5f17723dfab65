"""Agents as people set them up: what they may do unasked, what they may spend."""

from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Annotated

from msgspec import Meta, Struct

from contracts.message import JsonObject

Glob = Annotated[str, Meta(min_length=1, max_length=500)]


class Verdict(StrEnum):
    AUTO = "auto"
    ASK = "ask"
    DENY = "deny"


class ApprovalRule(Struct, frozen=True, kw_only=True):
    tool: Glob = "*"
    """The tool's name, with `*` and `?`."""
    pattern: Glob = "*"
    """Of what the call is about (its command, path, address or query), with `*` and `?`; `*` = whatever it is."""
    verdict: Verdict
    reason: Annotated[str, Meta(max_length=500)] = ""
    """Told to the agent with a denial."""

    def matches(self, tool: str, subject: str) -> bool:
        return fnmatchcase(tool, self.tool) and fnmatchcase(subject, self.pattern)


class TypedRule(ApprovalRule, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One that a person has typed, so an unknown field is refused; events pass over those."""


SUBJECTS = ("command", "file_path", "path", "url", "pattern", "query")
"""The arguments that say what a tool call is about, the first that is there."""


def subject_of(arguments: JsonObject) -> str:
    """What a tool call is about, for the patterns of rules and for people."""
    for name in SUBJECTS:
        found = arguments.get(name)
        if isinstance(found, str):
            return found
        if isinstance(found, list):
            return " ".join(str(each) for each in found)
    return ""


def verdict_for(rules: tuple[ApprovalRule, ...], tool: str, arguments: JsonObject) -> ApprovalRule:
    """The first rule that matches; where there is none, everything goes: the sandbox is what holds."""
    subject = subject_of(arguments)
    found = (rule for rule in rules if rule.matches(tool, subject))
    return next(found, ApprovalRule(verdict=Verdict.AUTO))


class Agents(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Agents in sandboxes, as far as the node's operator decides."""

    tools: str | None = None
    """A directory that every sandbox sees read-only at /opt/cloche/bin. Absent = what comes with the Claude Agent SDK,
    where that is installed; empty = none."""
    approvals: Annotated[tuple[TypedRule, ...], Meta(max_length=200)] = ()
    """After those that `agent.start` brings. Where none matches, everything goes."""
    approval_timeout_ms: Annotated[int, Meta(ge=1, le=2_592_000_000)] | None = None
    """What is not answered by then is denied. Absent = it waits for as long as the run does."""
    max_budget_usd: Annotated[float, Meta(gt=0)] | None = None
    max_tokens: Annotated[int, Meta(ge=1)] | None = None
    max_turns: Annotated[int, Meta(ge=1)] | None = None
    timeout_ms: Annotated[int, Meta(ge=1, le=86_400_000)] | None = None
    """Where `agent.start` says nothing, and the most that it may ask for."""
    handshake_s: Annotated[float, Meta(ge=0.1, le=600)] = 60.0
    """An agent's program that has not answered by then hangs."""
    silence_s: Annotated[float, Meta(ge=0.1, le=86_400)] = 900.0
    """So too one that says nothing for so long in the middle of a turn, while no tool call of it is open."""
    max_output_bytes: Annotated[int, Meta(ge=1024, le=1 << 40)] = 1 << 30
    """Of an agent's program in one run: more is a flood."""
