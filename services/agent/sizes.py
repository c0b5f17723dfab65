"""What agents say is as long as they like; an event is not."""

from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from contracts.events import agent as facts
from contracts.message import Fact, JsonObject

TEXT = 200_000
"""Characters of a message or a thought."""
RESULT = 64_000
NAME = 200
PATH = 2000
INPUT = 200_000
"""Bytes of a tool call's arguments, as JSON."""
SHOWN = 20_000
DEPTH = 64


class Cut(NamedTuple):
    text: str
    truncated: bool


def cut(text: str, most: int) -> Cut:
    """The beginning of it; without halves of characters that are none."""
    clean = text[: most + 1].encode("utf-8", "replace").decode()
    return Cut(clean[:most], len(clean) > most)


def bounded(fact: Fact) -> Fact:
    """As it can be stored, told where something is missing. The whole is in the output of the run's process."""
    match fact:
        case facts.AgentMessage():
            text, truncated = cut(fact.text, TEXT)
            message, parent = cut(fact.message, NAME).text, _name(fact.parent)
            return replace(fact, text=text, message=message, parent=parent, truncated=truncated or fact.truncated)
        case facts.AgentThinking():
            return replace(fact, text=cut(fact.text, TEXT).text, message=cut(fact.message, NAME).text)
        case facts.AgentToolUse():
            given, truncated = arguments(fact.input)
            tool, call = cut(fact.tool, NAME).text, cut(fact.call, NAME).text
            parent = _name(fact.parent)
            return replace(fact, tool=tool, call=call, input=given, parent=parent, truncated=truncated)
        case facts.AgentToolResult():
            text, truncated = cut(fact.output, RESULT)
            call = cut(fact.call, NAME).text
            return replace(fact, call=call, output=text, truncated=truncated or fact.truncated)
        case facts.AgentApprovalRequested():
            given, truncated = arguments(fact.input)
            tool, reason = cut(fact.tool, NAME).text, cut(fact.reason, SHOWN).text
            return replace(fact, tool=tool, input=given, reason=reason, call=_name(fact.call), truncated=truncated)
        case facts.AgentRejected():
            return replace(fact, tool=cut(fact.tool, NAME).text, call=_name(fact.call))
        case facts.AgentDelivered():
            return replace(fact, call=_name(fact.call))
        case facts.AgentTranscript():
            return replace(fact, session=cut(fact.session, NAME).text, path=cut(fact.path, PATH).text)
        case facts.AgentCompleted():
            return replace(fact, result=cut(fact.result, TEXT).text, reason=cut(fact.reason, SHOWN).text)
        case facts.AgentError():
            failure = replace(fact.failure, message=cut(fact.failure.message, SHOWN).text)
            return replace(fact, failure=failure, detail=cut(fact.detail, SHOWN).text)
    return fact


def _name(text: str | None) -> str | None:
    return None if text is None else cut(text, NAME).text


class Arguments(NamedTuple):
    input: JsonObject
    truncated: bool


def arguments(given: JsonObject) -> Arguments:
    """A tool call's arguments come from a model: any JSON, of any size and depth."""
    if _depth_beyond(given, DEPTH):
        return Arguments({"text": f"nested more than {DEPTH} deep"}, True)
    try:
        raw = msgspec.json.encode(given)
    except (ValueError, TypeError, RecursionError, OverflowError):
        # Halves of characters, or numbers that JSON cannot say.
        return Arguments({"text": cut(repr(given), SHOWN).text}, True)
    if len(raw) > INPUT:
        return Arguments({"text": raw[:SHOWN].decode("utf-8", "ignore")}, True)
    return Arguments(given, False)


def _depth_beyond(given: object, most: int) -> bool:
    """Whether something lies deeper than that. Level by level: nothing here may be as deep as they like."""
    level = [given]
    for _ in range(most):
        level = [child for each in level for child in _children(each)]
        if not level:
            return False
    return True


def _children(each: object) -> list[object]:
    if isinstance(each, dict):
        return [value for value in each.values() if isinstance(value, dict | list)]
    return [value for value in each if isinstance(value, dict | list)] if isinstance(each, list) else []
