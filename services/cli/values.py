"""What people type: durations, assignments, signals."""

import json
import re
import signal
from collections.abc import Iterable
from typing import Any

from contracts.errors import Invalid
from contracts.ids import is_token

_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}\Z")
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)?\Z")


def duration_ms(text: str) -> int:
    """`500ms`, `30s`, `5m`, `1h`; a plain number is seconds."""
    match = _DURATION.match(text)
    if match is None:
        raise Invalid(f"{text!r} is not a duration: try 500ms, 30s, 5m or 1h")
    return max(1, round(float(match[1]) * _UNITS[match[2] or "s"]))


def environment(pairs: Iterable[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not _VARIABLE.match(name):
            raise Invalid(f"--env {pair!r} is not NAME=VALUE, with a name of letters, digits and '_'")
        found[name] = value
    return found


def inside_path(text: str) -> str:
    """An absolute path in the sandbox."""
    if not text.startswith("/"):
        raise Invalid(f"--cwd {text!r} does not start with '/': give the whole path inside, such as /workspace/src")
    return text


def specification(pairs: Iterable[str]) -> dict[str, Any]:
    """`resources.memory_mb=1024` as a nested object; values are JSON where they are, else text."""
    spec: dict[str, Any] = {}
    for pair in pairs:
        path, equals, text = pair.partition("=")
        if not equals or not path:
            raise Invalid(f"--set {pair!r} is not PATH=VALUE, such as resources.memory_mb=1024")
        *parents, last = path.split(".")
        inner = spec
        for parent in parents:
            inner = inner.setdefault(parent, {})
            if not isinstance(inner, dict):
                raise Invalid(f"--set {path}: {parent} already has a plain value")
        inner[last] = _value(text)
    return spec


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def signal_number(text: str) -> int:
    """`TERM`, `SIGTERM` or `15`."""
    if text.isdigit() and 1 <= int(text) <= 64:
        return int(text)
    name = text.upper() if text.upper().startswith("SIG") else f"SIG{text.upper()}"
    try:
        return int(signal.Signals[name])
    except KeyError:
        raise Invalid(f"{text!r} is not a signal: try TERM, KILL, INT or a number") from None


def sandbox_name(text: str) -> str:
    """As it stands. Raises `Invalid` for what cannot be the id of a sandbox."""
    if not is_token(text):
        raise Invalid(f"{text!r} is not a sandbox id: letters, digits, '-' and '_', 64 at most")
    return text
