"""Patterns for paths, as regular expressions that take linear time."""

from typing import Any

import re2

from contracts.errors import Invalid


class PathPattern:
    """`*` and `?` stay within a name, `**` goes over directories, `[a-z]` and `[!a-z]` are a character, `{a,b}` either.

    What is not UTF-8 in a name counts as a character, too.
    A pattern without `/` is matched against the last name where `by_name` says so. Raises `Invalid` for a bad one.
    """

    def __init__(self, pattern: str, *, by_name: bool = False) -> None:
        pattern = pattern.removeprefix("./")
        if pattern.startswith("/") or ".." in pattern.split("/"):
            raise Invalid(f"{pattern[:200]!r} is not a pattern beneath a directory: no leading `/`, no `..`")
        self._by_name = by_name and "/" not in pattern
        self._regexp = regexp(_translated(pattern), flags="(?s)", shown=pattern)

    def matches(self, path: bytes) -> bool:
        """`path` is relative to where the search began."""
        subject = path.rpartition(b"/")[2] if self._by_name else path
        return self._regexp.fullmatch(subject if subject.isascii() else _as_text(subject)) is not None


def _as_text(name: bytes) -> bytes:
    """The engine matches characters: what is not UTF-8 counts as one."""
    return name.decode(errors="replace").encode()


def regexp(pattern: str, *, flags: str = "", shown: str, within_lines: bool = False) -> Any:
    """Compiled, for bytes; `within_lines`: no match ever reaches over a line break. Raises `Invalid`."""
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.never_nl = within_lines
    try:
        return re2.compile((flags + pattern).encode(), options)
    except re2.error as error:
        said = error.args[0] if error.args else ""
        why = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
        raise Invalid(f"{shown[:200]!r} is not a pattern: {why.replace(flags, '', 1)}") from None


def _translated(pattern: str) -> str:
    names = pattern.split("/")
    out = ""
    for number, name in enumerate(names):
        last = number == len(names) - 1
        if name == "**":
            out += ".*" if last else "(?:[^/]+/)*"
        else:
            out += _name(name) + ("" if last else "/")
    return out


def _name(name: str) -> str:
    out, at, depth = "", 0, 0
    while at < len(name):
        character = name[at]
        at += 1
        if character == "*":
            out += "[^/]*"
        elif character == "?":
            out += "[^/]"
        elif character == "[" and (end := name.find("]", at + 1 + name.startswith("!", at))) > 0:
            out += _class(name[at:end])
            at = end + 1
        elif character == "{" and "}" in name[at:]:
            out += "(?:"
            depth += 1
        elif character in ",}" and depth:
            out += "|" if character == "," else ")"
            depth -= character == "}"
        else:
            out += re2.escape(character)
    return out


def _class(inner: str) -> str:
    negated = inner.startswith(("!", "^"))
    escaped = "".join(rf"\{each}" if each in r"\[]^&~" else each for each in (inner[1:] if negated else inner))
    return f"[^/{escaped}]" if negated else f"[{escaped}]"
