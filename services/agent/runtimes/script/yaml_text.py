"""The part of YAML that a script may use: lists, mappings and words, each where it stands.

Whatever the text is, it takes time and memory in proportion to its length. The composer and the constructor of PyYAML
do not: they call themselves for each level (the C one until the stack of the process is used up), copy what is merged,
and work out numbers to the base of sixty. So only its parser is used, which keeps its levels on a list and tells of
them one by one; what is made of that is made here.
"""

import math
import re
from collections.abc import Iterator
from contextlib import closing
from typing import Any, NoReturn

import yaml

from contracts.errors import Invalid

DEEPEST = 50
"""Lists and mappings within one another."""
LONGEST_NUMBER = 18
"""Characters: what fits into 64 bits."""
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

WORDS = {"": None, "null": None, "true": True, "false": False}
NUMBER = re.compile(r"(-?(?:0|[1-9][0-9]*))((?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)")
"""Of JSON: what is whole, and what makes it a float."""
OCTAL = re.compile(r"0o[0-7]+")
LEADING_ZERO = re.compile(r"[-+]?0[0-9]+")
DIRECTIVE = re.compile("(?:^|[\r\n\x85\u2028\u2029])\ufeff?%")
"""Each of them is compared with all before it, and the parser tells of none until it has read the last."""


def load(text: str) -> Any:
    """Dicts with keys of `str`, lists, `str`, `int`, `float`, `bool` and `None`.

    Words without quotes are what they are in JSON, and `0o644` is a number too; all others are text. Raises `Invalid`,
    with the line and what to do.
    """
    directive = DIRECTIVE.search(text)
    if directive is not None:
        line = text.count("\n", 0, directive.end()) + 1
        raise Invalid(f"script: line {line}: a line that begins with `%`: a script has no directives, leave it out")
    try:
        with closing(yaml.parse(text, LOADER)) as events:
            return _Builder(events).document()
    except (yaml.YAMLError, ValueError) as error:
        # A character that is none, or half of one, is a `ValueError`.
        words = " ".join(str(error).split())[:500]
        raise Invalid(f"script: neither YAML nor JSON: {words}") from error


class _Builder:
    def __init__(self, events: Iterator[yaml.Event]) -> None:
        self._events = events

    def document(self) -> Any:
        next(self._events)
        if isinstance(next(self._events), yaml.StreamEndEvent):
            return None
        found = self._node(next(self._events), 1)
        next(self._events)
        event = next(self._events)
        if not isinstance(event, yaml.StreamEndEvent):
            _refuse(event, "a second document: a script is one, leave out the `---`")
        return found

    def _node(self, event: yaml.Event, depth: int) -> Any:
        _admit(event)
        if isinstance(event, yaml.ScalarEvent):
            return _meaning(event) if event.implicit[0] else _text(event)
        if depth > DEEPEST:
            _refuse(event, f"lists and mappings within one another, {DEEPEST} deep at most")
        return self._list(depth) if isinstance(event, yaml.SequenceStartEvent) else self._mapping(depth)

    def _list(self, depth: int) -> list[Any]:
        made = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            made.append(self._node(event, depth + 1))
        return made

    def _mapping(self, depth: int) -> dict[str, Any]:
        made: dict[str, Any] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key = _key(event)
            if key in made:
                _refuse(event, f"`{key[:40]}` for the second time in one mapping: leave one out")
            made[key] = self._node(next(self._events), depth + 1)
        return made


def _admit(event: yaml.Event) -> None:
    assert isinstance(event, yaml.NodeEvent)
    if event.anchor is not None:
        _refuse(event, "a script has no anchors (`&`) and no aliases (`*`): write it out, or put text in quotes")
    assert isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent)
    if event.tag is not None:
        _refuse(event, "a script has no tags (`!`): leave it out, or put text in quotes")


def _key(event: yaml.Event) -> str:
    """Always text, whatever it would be elsewhere."""
    _admit(event)
    if not isinstance(event, yaml.ScalarEvent):
        _refuse(event, "a key that is a list or a mapping: put text in quotes")
    if event.value == "<<":
        _refuse(event, "a script has no merges (`<<`): write it out")
    return _text(event)


def _text(event: yaml.ScalarEvent) -> str:
    text: str = event.value
    try:
        text.encode()
    except UnicodeEncodeError:
        # As an escape; the C parser does not take it.
        _refuse(event, "half of a character, which is not Unicode: write the whole")
    return text


def _meaning(event: yaml.ScalarEvent) -> str | int | float | bool | None:
    text = _text(event)
    if text in WORDS:
        return WORDS[text]
    number = NUMBER.fullmatch(text)
    octal = OCTAL.fullmatch(text)
    if LEADING_ZERO.fullmatch(text):
        _refuse(event, f"`{text[:40]}` begins with a zero: `0o…` is octal, and text is put in quotes")
    if number is None and octal is None:
        return text
    if len(text) > LONGEST_NUMBER:
        _refuse(event, f"a number of {len(text)} characters, {LONGEST_NUMBER} at most: put text in quotes")
    if number is None:
        return int(text, 8)
    return _finite(event) if number[2] else int(text)


def _finite(event: yaml.ScalarEvent) -> float:
    found = float(event.value)
    if not math.isfinite(found):
        _refuse(event, f"`{event.value}` is more than a number can be: put text in quotes")
    return found


def _refuse(event: yaml.Event, words: str) -> NoReturn:
    assert event.start_mark is not None
    raise Invalid(f"script: line {event.start_mark.line + 1}: {words}")
