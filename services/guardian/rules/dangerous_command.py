"""Commands that one would rather know about at once."""

import functools
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import re2
from msgspec import Struct

from contracts.commands.command import Asker
from contracts.errors import Invalid
from contracts.events.agent import AgentToolUse
from contracts.events.command import CommandStarted
from contracts.guardian import DangerousCommand, Finding
from services.guardian.bounded import with_entry, without
from services.guardian.calls import brief, fingerprint
from services.guardian.rules.rule import Outcome, Rule, shown
from services.guardian.seen import Seen

INPUTS = ("command", "cmd", "argv", "args", "shell", "script")
"""Fields of a tool's input that hold a command line."""
SHELLS = frozenset({"sh", "bash", "zsh", "dash", "ash", "ksh"})
MAX_PROGRAM = 5000
ASKED = 64


class State(Struct, frozen=True):
    asked: Mapping[str, int] = {}
    """What agents asked for and was found then: that it runs is not found once more."""


class _Patterns(NamedTuple):
    names: tuple[str, ...]
    found_in: Any


def compiled(settings: DangerousCommand) -> _Patterns:
    """Raises `Invalid` for a pattern that is none, or too large."""
    return _compiled(tuple({**settings.patterns, **settings.also}.items()))


def step(settings: DangerousCommand, state: State, event: Seen) -> Outcome:
    run, lines = _lines(event.fact)
    asked, findings = state.asked, []
    for line in lines:
        if not (names := _matches(settings, line)):
            continue
        name = fingerprint(line)
        is_known = name in asked and isinstance(event.fact, CommandStarted) and event.fact.asker is Asker.AGENT
        asked = without(asked, name) if run is None else with_entry(asked, name, event.sequence, ASKED)
        findings += [] if is_known else [_finding(names, line, run, event)]
    return Outcome(State(asked), tuple(findings))


def _lines(fact: object) -> tuple[str | None, list[str]]:
    match fact:
        case CommandStarted():
            return None, list(_spoken(list(fact.argv)))
        case AgentToolUse():
            return brief(fact.run), [line for name in INPUTS for line in _spoken(fact.input.get(name))]
    return None, []


def _spoken(value: object) -> Iterator[str]:
    """A command line as somebody would type it; what a shell is given to run, without the shell."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list) and value and all(isinstance(word, str) for word in value):
        yield " ".join(_script(value) or value)


def _script(words: list[str]) -> list[str]:
    """What a shell is given to run (`bash -e -c SCRIPT …`), without the shell; empty where it is no shell."""
    if words[0].rpartition("/")[2] not in SHELLS:
        return []
    options = [number for number, word in enumerate(words) if number and word.startswith("-")]
    last = next((number for number in options if words[number].endswith("c")), None)
    return [] if last is None else words[last + 1 :]


def _matches(settings: DangerousCommand, line: str) -> list[str]:
    patterns = compiled(settings)
    # Linear in the line, which is at most one message long: nothing that is typed can make it slow.
    found = patterns.found_in.Match(line.encode("utf-8", "replace")) or []
    return [patterns.names[number] for number in sorted(found)]


@functools.lru_cache(maxsize=16)
def _compiled(patterns: tuple[tuple[str, str], ...]) -> _Patterns:
    options = re2.Options()
    options.log_errors = False
    options.case_sensitive = False
    options.never_capture = True
    every = re2.Set.SearchSet(options)
    for name, pattern in patterns:
        try:
            if re2.compile(pattern, options).programsize > MAX_PROGRAM:
                raise Invalid(f"dangerous_command: the pattern {name!r} is too large")
            every.Add(pattern)
        except re2.error as error:
            raise Invalid(f"dangerous_command: {name!r} is not a pattern: {error}") from None
    if patterns:
        every.Compile()
    return _Patterns(tuple(name for name, _ in patterns), every)


def _finding(names: list[str], line: str, run: str | None, event: Seen) -> Finding:
    return Finding(
        rule=RULE.name,
        key=f"{run or 'command'}/{fingerprint(names)}#{fingerprint(line)}",
        text=f"{', '.join(names)}: {shown(line)}",
        evidence=(event.sequence,),
        run=run,
    )


RULE = Rule(
    name="dangerous_command",
    about="a command, or what an agent's tool is asked to run, matches one of `patterns`",
    reads=frozenset({"command.started", "agent.tool_use"}),
    settings=DangerousCommand,
    begin=State,
    step=step,
)
