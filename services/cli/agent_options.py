"""What people type to start an agent: rules about tools, options of a runtime, scripts, prompts."""

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from contracts.agents import TypedRule, Verdict
from contracts.errors import Invalid

LARGEST = 1_000_000
"""Bytes of a script, or of a prompt."""
MOST_RULES = 200


def rules(deny: Iterable[str] | None, ask: Iterable[str] | None, auto: Iterable[str] | None) -> tuple[TypedRule, ...]:
    """In the order in which they are to be tried: denials first, then whatever says more before what says less."""
    found = [
        _rule(text, verdict, option)
        for verdict, option, given in (
            (Verdict.DENY, "--deny", deny),
            (Verdict.ASK, "--ask", ask),
            (Verdict.AUTO, "--auto", auto),
        )
        for text in given or ()
    ]
    if len(found) > MOST_RULES:
        raise Invalid(f"{len(found)} rules are too many: {MOST_RULES} at most")
    return tuple(sorted(found, key=lambda rule: (rule.verdict is not Verdict.DENY, _vagueness(rule))))


def _rule(text: str, verdict: Verdict, option: str) -> TypedRule:
    tool, _, pattern = text.partition(":")
    if not tool:
        raise Invalid(f"{option} {text!r} is not TOOL[:PATTERN], such as Bash, 'Bash:git push*' or '*'")
    return TypedRule(tool=tool, pattern=pattern or "*", verdict=verdict)


def _vagueness(rule: TypedRule) -> int:
    return 2 * (rule.pattern == "*") + any(character in rule.tool for character in "*?[")


def options(pairs: Iterable[str] | None) -> dict[str, Any]:
    """`name=value`; the value is JSON where it is, else text."""
    found: dict[str, Any] = {}
    for pair in pairs or ():
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise Invalid(f"--option {pair!r} is not NAME=VALUE")
        try:
            found[name] = json.loads(text)
        except ValueError:
            found[name] = text
    return found


def script(path: Path) -> str:
    """Raises `Invalid` for what cannot be read as text."""
    try:
        with path.open("rb") as opened:
            data = opened.read(LARGEST + 1)
    except OSError as error:
        raise Invalid(f"--script {str(path)!r} cannot be read: {error.strerror}") from error
    return _text(data, f"--script {str(path)!r}")


def prompt(given: str | None) -> str | None:
    """`-` is standard input."""
    return given if given != "-" else _text(sys.stdin.buffer.read(LARGEST + 1), "standard input")


def _text(data: bytes, what: str) -> str:
    if len(data) > LARGEST:
        raise Invalid(f"{what} has more than {LARGEST} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise Invalid(f"{what} is not UTF-8: {error.reason} at byte {error.start}") from error
