"""Agents as people set them up: what they may do unasked, what they may spend."""

import functools
from enum import StrEnum
from typing import Annotated, Any

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
    """Of what the call is about (its command, path, address …), with `*` and `?`; `*` = whatever it is.

    To deny or to ask, any text among its arguments counts, at any depth."""
    verdict: Verdict
    reason: Annotated[str, Meta(max_length=500)] = ""
    """Told to the agent with a denial."""


class TypedRule(ApprovalRule, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One that a person has typed, so an unknown field is refused; events pass over those."""


SUBJECTS = ("command", "file_path", "path", "notebook_path", "url", "pattern", "query")
"""The arguments that say what a tool call is about, the first that is there."""
MOST_JUDGED = 4 * 1024 * 1024
"""Characters of all arguments together: what nobody can look through is not let through unasked by a pattern."""
MOST_LEAVES = 10_000


def subject_of(arguments: JsonObject) -> str:
    """What a tool call is about, for people."""
    for name in SUBJECTS:
        found = arguments.get(name)
        if isinstance(found, str) and found:
            return found
        if isinstance(found, list) and found:
            return " ".join(each for each in found[:MOST_LEAVES] if isinstance(each, str))
    return ""


def verdict_for(rules: tuple[ApprovalRule, ...], tool: str, arguments: JsonObject) -> ApprovalRule:
    """The first rule that matches; where there is none, everything goes: the sandbox is what holds.

    A pattern is looked for in every text among the arguments, for nobody can say beforehand where a tool keeps what it
    is about. A rule that lets something pass has to match what the call is about, and nothing that it may also be.
    """
    texts = _texts(arguments)
    about = subject_of(arguments)
    for rule in rules:
        if not _matches(rule.tool, tool):
            continue
        if rule.pattern == "*":
            return rule
        if rule.verdict is Verdict.AUTO:
            if texts is not None and _matches(rule.pattern, about):
                return rule
        elif texts is None or any(_matches(rule.pattern, text) for text in (about, *texts)):
            return rule
    return ApprovalRule(verdict=Verdict.AUTO)


def _matches(pattern: str, text: str) -> bool:
    return pattern == "*" or _compiled(pattern).fullmatch(text.encode("utf-8", "replace")) is not None


@functools.lru_cache(maxsize=1000)
def _compiled(pattern: str) -> Any:
    """`*` and `?`, nothing else: linear in the text, whatever the pattern."""
    # Few need it, and everybody who speaks to the bus imports this page.
    import re2

    parts = {"*": ".*", "?": "."}
    return re2.compile(("(?s)" + "".join(parts.get(each) or re2.escape(each) for each in pattern)).encode())


def _texts(arguments: JsonObject) -> tuple[str, ...] | None:
    """Every text among the arguments; None where there is more than can be looked through."""
    found: list[str] = []
    waiting: list[object] = [arguments]
    size = 0
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            found.append(each)
            size += len(each)
        elif isinstance(each, dict):
            waiting += [*each.values(), *(key for key in each if isinstance(key, str))]
        elif isinstance(each, list):
            # A command line in words is one text.
            if all(isinstance(word, str) for word in each):
                waiting.append(" ".join(each))
            waiting += each
        if size > MOST_JUDGED or len(found) + len(waiting) > MOST_LEAVES:
            return None
    return tuple(found)


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
