"""The contracts for programs that are not ours: an AsyncAPI document and a JSON Schema, made from the registry."""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from contracts import egress, files, queries, subjects, transfers, watch, worktrees
from contracts.events.audit import DeadLetter
from contracts.message import CommandHead, EventHead
from contracts.queries import Reply
from contracts.registry import COMMANDS, EVENTS, VITALS

Document = dict[str, Any]

CONTRACTS_VERSION = "1.0.0"
"""Of the messages, not of the program: the first number moves only when a released tag goes."""

ASYNCAPI_FILE = "asyncapi.json"
JSON_SCHEMA_FILE = "schema.json"

_IN_ASYNCAPI = "#/components/schemas/"
_IN_JSON_SCHEMA = "#/$defs/"

_PARAMETERS = {
    "NODE": "The node that owns the sandbox.",
    "SANDBOX": f"The sandbox. `{subjects.NO_SANDBOX}` stands for none in a dead letter.",
    "EXEC": "The command's execution: the id of the `command.run` that asked for it.",
    "RUN": "The agent's run: the id of the `agent.start` that asked for it.",
    "SERVICE": "The service that gave up.",
    "COMMAND": "The id of the command that was given up.",
    "REPLAY": "The replay: the id of the `replay.start` that asked for it.",
    "ORIGINAL": "The event's own subject, without its first two tokens.",
}
"""Placeholders are real tokens, so that `contracts/subjects.py` builds the addresses too."""


QUERIES: dict[str, type[msgspec.Struct]] = {
    **queries.QUERIES,
    **{f"git.{verb}": kind for verb, kind in worktrees.REQUESTS.items()},
    **{f"files.{verb}": kind for verb, kind in (files.REQUESTS | transfers.REQUESTS).items()},
    **{f"watch.{verb}": kind for verb, kind in watch.REQUESTS.items()},
    **{f"egress.{verb}": kind for verb, kind in egress.REQUESTS.items()},
}
ANSWERS: dict[str, type[msgspec.Struct]] = {
    **queries.ANSWERS,
    **{f"git.{verb}": kind for verb, kind in worktrees.ANSWERS.items()},
    **{f"files.{verb}": kind for verb, kind in (files.ANSWERS | transfers.ANSWERS).items()},
    **{f"watch.{verb}": kind for verb, kind in watch.ANSWERS.items()},
    **{f"egress.{verb}": kind for verb, kind in egress.ANSWERS.items()},
}
"""Every request that is answered, and its answer."""


class _Message(NamedTuple):
    name: str
    """Unique over commands, events and answers: some commands and events share a tag."""
    tag: str
    payload: Document
    kind: type[Any]
    content_type: str = "application/cloudevents+json"


class _Channel(NamedTuple):
    name: str
    address: str | None
    """None where it is known at run time only: an inbox for answers."""
    action: str
    """What Cloche does on it."""
    messages: tuple[_Message, ...]


def documents() -> dict[str, str]:
    """File name → text of every document to be kept in `docs/`. The same registry gives the same bytes."""
    return {ASYNCAPI_FILE: render(asyncapi()), JSON_SCHEMA_FILE: render(json_schema())}


def render(document: Document) -> str:
    return json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def asyncapi() -> Document:
    """AsyncAPI 3.0.0, seen from Cloche: it receives commands and questions, and sends events and answers."""
    channels = list(_channels())
    messages = {message.name: message for channel in channels for message in channel.messages}
    return {
        "asyncapi": "3.0.0",
        "info": _info(),
        "defaultContentType": "application/json",
        "channels": {channel.name: _channel(channel) for channel in channels},
        "operations": dict(_operations(channels)),
        "components": {
            "messages": {name: _message(message) for name, message in messages.items()},
            "schemas": _schemas(),
        },
    }


def json_schema() -> Document:
    """JSON Schema 2020-12: `$defs` of every Struct and of every message in its envelope; the root is any message."""
    messages = {message.name: message.payload for channel in _channels() for message in channel.messages}
    document: Document = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Cloche",
        "description": "Every message of Cloche. `$defs` names messages `<kind>.<tag>` and their parts by type.",
        "anyOf": [{"$ref": f"{_IN_ASYNCAPI}{name}"} for name in sorted(messages)],
        "$defs": {**_schemas(), **messages},
    }
    return {key: _moved(value) for key, value in document.items()}


def _info() -> Document:
    return {
        "title": "Cloche",
        "version": CONTRACTS_VERSION,
        "description": "Sandboxes by message: publish commands, subscribe to events, ask for state. NATS subjects; "
        "a command's `id` is also its `Nats-Msg-Id`.",
        "license": {"name": "MIT"},
    }


def _schemas() -> dict[str, Document]:
    kinds = [EventHead, CommandHead, Reply, DeadLetter]
    kinds += [*EVENTS.values(), *VITALS.values(), *COMMANDS.values(), *QUERIES.values(), *ANSWERS.values()]
    return msgspec.json.schema_components(kinds, ref_template=_IN_ASYNCAPI + "{name}")[1]


def _ref(kind: type[Any]) -> Document:
    return {"$ref": f"{_IN_ASYNCAPI}{kind.__name__}"}


def _moved(node: Any) -> Any:
    """The same schema, with its parts in `$defs`."""
    if isinstance(node, dict):
        return {key: _moved(value) for key, value in node.items()}
    if isinstance(node, list):
        return [_moved(value) for value in node]
    return node.replace(_IN_ASYNCAPI, _IN_JSON_SCHEMA) if isinstance(node, str) else node


def _enveloped(head: type[Any], tag: Document, kind: type[Any]) -> Document:
    properties = {"type": tag, "datacontenttype": {"const": "application/json"}, "data": _ref(kind)}
    return {"allOf": [_ref(head)], "type": "object", "properties": properties}


def _command(tag: str) -> _Message:
    kind = COMMANDS[tag]
    payload = _enveloped(CommandHead, {"const": tag}, kind)
    if msgspec.json.schema(kind)["$defs"][kind.__name__]["required"]:
        payload["required"] = ["data"]
    return _Message(f"command.{tag}", tag, payload, kind)


def _event(tag: str, kind: type[Any]) -> _Message:
    return _Message(f"event.{tag}", tag, _enveloped(EventHead, {"const": tag}, kind), kind)


def _dead_letter() -> _Message:
    tag = {"pattern": f"^{subjects.DEAD_LETTER}\\."}
    payload = _enveloped(EventHead, tag, DeadLetter)
    return _Message(f"event.{subjects.DEAD_LETTER}", f"{subjects.DEAD_LETTER}.<service>", payload, DeadLetter)


def _question(verb: str) -> _Message:
    return _Message(f"query.{verb}", verb, _ref(QUERIES[verb]), QUERIES[verb], "application/json")


def _answer(verb: str) -> _Message:
    payload = {"allOf": [_ref(Reply)], "properties": {"result": {"anyOf": [_ref(ANSWERS[verb]), {"type": "null"}]}}}
    return _Message(f"answer.{verb}", verb, payload, ANSWERS[verb], "application/json")


def _channels() -> Iterator[_Channel]:
    yield from _command_channels()
    events = [_event_channel(tag, kind) for tag, kind in EVENTS.items()]
    events += _dead_letter_channels()
    yield from events
    for tag, kind in VITALS.items():
        address = subjects.vitals("SANDBOX", tag.partition(".")[2])
        yield _Channel(f"event.{tag}", address, "send", (_event(tag, kind),))
    for verb in QUERIES:
        yield _Channel(f"query.{verb}", _rpc(verb), "receive", (_question(verb),))
        yield _Channel(f"answer.{verb}", None, "send", (_answer(verb),))
    written = tuple({message.name: message for channel in events for message in channel.messages}.values())
    yield _Channel("replayed", subjects.replayed("REPLAY", "ORIGINAL"), "send", written)


def _rpc(query: str) -> str:
    family, _, verb = query.rpartition(".")
    return subjects.rpc(family, "NODE", "SANDBOX", verb) if family else subjects.state_rpc(verb)


def _command_channels() -> Iterator[_Channel]:
    for tag in COMMANDS:
        family, verb = tag.split(".")
        any_node = tag == "sandbox.create" or family == "replay"
        node = subjects.ANY_NODE if any_node else "NODE"
        address = subjects.command(node, "SANDBOX", family, verb)
        yield _Channel(f"command.{tag}", address, "receive", (_command(tag),))


def _dead_letter_channels() -> Iterator[_Channel]:
    name = f"event.{subjects.DEAD_LETTER}"
    yield _Channel(name, subjects.dead_letter("SANDBOX", "SERVICE"), "send", (_dead_letter(),))
    of_command = subjects.dead_letter("SANDBOX", "SERVICE", "COMMAND")
    yield _Channel(f"{name}.of_command", of_command, "send", (_dead_letter(),))


def _event_channel(tag: str, kind: type[Any]) -> _Channel:
    scope = next((name.upper() for name in ("exec", "run") if name in kind.__struct_fields__), None)
    return _Channel(f"event.{tag}", subjects.event("SANDBOX", tag, scope), "send", (_event(tag, kind),))


def _channel(channel: _Channel) -> Document:
    refs = {message.name: {"$ref": f"#/components/messages/{message.name}"} for message in channel.messages}
    tokens = (channel.address or "").split(".")
    parameters = {token.lower(): _parameter(token) for token in tokens if token in _PARAMETERS}
    written = None if channel.address is None else ".".join(_placeholder(token) for token in tokens)
    return {"address": written, "messages": refs, **({"parameters": parameters} if parameters else {})}


def _placeholder(token: str) -> str:
    return f"{{{token.lower()}}}" if token in _PARAMETERS else token


def _parameter(token: str) -> Document:
    shape = "" if token == "ORIGINAL" else " One token: letters, digits, `-` and `_`, 64 at most."
    return {"description": _PARAMETERS[token] + shape}


def _operations(channels: list[_Channel]) -> Iterator[tuple[str, Document]]:
    for channel in channels:
        if channel.address is None:
            continue
        operation = {"action": channel.action, **_of_channel(channel.name, channel.messages)}
        if channel.name.startswith("query."):
            verb = channel.name.removeprefix("query.")
            operation["reply"] = _of_channel(f"answer.{verb}", (_answer(verb),))
        yield f"{channel.action}.{channel.name}", operation


def _of_channel(name: str, messages: tuple[_Message, ...]) -> Document:
    here = f"#/channels/{name}"
    return {
        "channel": {"$ref": here},
        "messages": [{"$ref": f"{here}/messages/{message.name}"} for message in messages],
    }


def _message(message: _Message) -> Document:
    summary = (message.kind.__doc__ or "").partition("\n")[0]
    described = {"name": message.tag, "contentType": message.content_type, "payload": message.payload}
    return {**described, **({"summary": summary} if summary else {})}
