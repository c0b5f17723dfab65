import json
import pathlib
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator

from contracts import codec, registry, schema
from contracts.events.audit import DeadLetter
from contracts.schema import ANSWERS, QUERIES
from contracts.state import fold
from tests.contracts.golden_files import golden, golden_tags
from tests.contracts.histories import CREATED, CREATING, STARTED, begun, completed, numbered, output

DOCS = pathlib.Path(__file__).parents[2] / "docs"
ASYNCAPI = schema.asyncapi()
JSON_SCHEMA = schema.json_schema()
EVENT_MESSAGES = {f"event.{tag}" for tag in {*registry.EVENTS, *registry.VITALS, "dead_letter"}}
COMMAND_MESSAGES = {f"command.{tag}" for tag in registry.COMMANDS}
RPC_MESSAGES = {f"{part}.{verb}" for part in ("query", "answer") for verb in QUERIES}
EVENT_KINDS: dict[str, type[msgspec.Struct]] = {**registry.EVENTS, **registry.VITALS, "dead_letter": DeadLetter}
OTHER_CHANNELS = {"event.dead_letter.of_command", "replayed"}
MESSAGES = EVENT_MESSAGES | COMMAND_MESSAGES | RPC_MESSAGES


def _refs(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        yield from ([node["$ref"]] if isinstance(node.get("$ref"), str) else [])
        yield from node.get("discriminator", {}).get("mapping", {}).values()
    for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from _refs(child)


def _resolve(document: Any, ref: str) -> Any:
    assert ref.startswith("#/")
    for step in ref.removeprefix("#/").split("/"):
        document = document[step]
    return document


def _validator(message: str) -> Draft202012Validator:
    return Draft202012Validator({"$ref": f"#/$defs/{message}", "$defs": JSON_SCHEMA["$defs"]})


def _message_of(tag: str) -> str:
    return "event.dead_letter" if tag.startswith("dead_letter.") else f"event.{tag}"


@pytest.mark.parametrize("name", ["asyncapi.json", "schema.json"])
def test_the_documents_in_docs_are_current(name: str) -> None:
    assert (DOCS / name).read_text(encoding="utf-8") == schema.documents()[name], "run `./cloche schema`"


def test_there_are_no_other_documents() -> None:
    assert set(schema.documents()) == {"asyncapi.json", "schema.json"}


def test_the_documents_are_the_same_every_time_and_readable() -> None:
    text = schema.render(schema.asyncapi())
    assert text == schema.render(schema.asyncapi())
    assert text.endswith("}\n")
    assert json.loads(text)["asyncapi"] == "3.0.0"


def test_every_tag_is_a_message_with_a_channel_and_an_operation() -> None:
    assert set(ASYNCAPI["components"]["messages"]) == MESSAGES
    assert set(ASYNCAPI["channels"]) == {*MESSAGES, *OTHER_CHANNELS}
    actions = {name: operation["action"] for name, operation in ASYNCAPI["operations"].items()}
    events = {f"send.{name}": "send" for name in EVENT_MESSAGES | OTHER_CHANNELS}
    received = COMMAND_MESSAGES | {f"query.{verb}" for verb in QUERIES}
    assert actions == events | {f"receive.{name}": "receive" for name in received}


def test_every_message_says_its_tag_and_points_at_its_data() -> None:
    for message in EVENT_MESSAGES | COMMAND_MESSAGES:
        payload = ASYNCAPI["components"]["messages"][message]["payload"]
        tag = message.partition(".")[2]
        kind: type[msgspec.Struct] = registry.COMMANDS[tag] if message in COMMAND_MESSAGES else EVENT_KINDS[tag]
        assert payload["properties"]["data"] == {"$ref": f"#/components/schemas/{kind.__name__}"}
        if tag != "dead_letter":
            assert payload["properties"]["type"] == {"const": tag}


@pytest.mark.parametrize(
    ("channel", "address", "parameters"),
    [
        ("command.sandbox.create", "cloche.cmd.any.{sandbox}.sandbox.create", {"sandbox"}),
        ("command.sandbox.stop", "cloche.cmd.{node}.{sandbox}.sandbox.stop", {"node", "sandbox"}),
        ("command.command.run", "cloche.cmd.{node}.{sandbox}.command.run", {"node", "sandbox"}),
        ("command.agent.start", "cloche.cmd.{node}.{sandbox}.agent.start", {"node", "sandbox"}),
        ("command.replay.seek", "cloche.cmd.any.{sandbox}.replay.seek", {"sandbox"}),
        ("event.sandbox.created", "cloche.log.{sandbox}.sandbox.created", {"sandbox"}),
        ("event.command.output", "cloche.log.{sandbox}.command.output.{exec}", {"sandbox", "exec"}),
        ("event.agent.message", "cloche.log.{sandbox}.agent.message.{run}", {"sandbox", "run"}),
        ("event.dead_letter", "cloche.log.{sandbox}.dead_letter.{service}", {"sandbox", "service"}),
        (
            "event.dead_letter.of_command",
            "cloche.log.{sandbox}.dead_letter.{service}.{command}",
            {"sandbox", "service", "command"},
        ),
        ("event.vitals.heartbeat", "cloche.vitals.{sandbox}.heartbeat", {"sandbox"}),
        ("query.events", "cloche.rpc.state.events", set()),
        ("answer.events", None, set()),
        ("query.git.diff", "cloche.rpc.{node}.{sandbox}.git.diff", {"node", "sandbox"}),
        ("answer.git.commit", None, set()),
        ("query.files.read", "cloche.rpc.{node}.{sandbox}.files.read", {"node", "sandbox"}),
        ("replayed", "cloche.replay.{replay}.{original}", {"replay", "original"}),
    ],
)
def test_every_form_of_subject_is_a_channel(channel: str, address: str | None, parameters: set[str]) -> None:
    found = ASYNCAPI["channels"][channel]
    assert found["address"] == address
    assert set(found.get("parameters", {})) == parameters


def test_a_question_names_the_answer_that_comes_back() -> None:
    for verb in QUERIES:
        reply = ASYNCAPI["operations"][f"receive.query.{verb}"]["reply"]
        (ref,) = reply["messages"]
        message = _resolve(ASYNCAPI, _resolve(ASYNCAPI, ref["$ref"])["$ref"])
        assert f"#/components/schemas/{ANSWERS[verb].__name__}" in set(_refs(message))


@pytest.mark.parametrize("document", [ASYNCAPI, JSON_SCHEMA], ids=["asyncapi", "json schema"])
def test_every_reference_resolves(document: Any) -> None:
    refs = set(_refs(document))
    assert len(refs) > 100
    for ref in refs:
        assert isinstance(_resolve(document, ref), dict)


def test_the_json_schema_is_a_json_schema() -> None:
    Draft202012Validator.check_schema(JSON_SCHEMA)
    assert set(JSON_SCHEMA["$defs"]) >= MESSAGES


@pytest.mark.parametrize("tag", sorted(golden_tags("events")))
def test_golden_events_are_valid(tag: str) -> None:
    message = json.loads(golden("events", tag))
    _validator(_message_of(tag)).validate(message)
    Draft202012Validator(JSON_SCHEMA).validate(message)


@pytest.mark.parametrize("tag", sorted(golden_tags("commands")))
def test_golden_commands_are_valid_and_mistyped_ones_are_not(tag: str) -> None:
    message = json.loads(golden("commands", tag))
    validator = _validator(f"command.{tag}")
    validator.validate(message)
    assert not validator.is_valid({**message, "data": {**message["data"], "tiemout": 1}})
    assert not validator.is_valid({**message, "type": "garden.water"})
    assert not validator.is_valid({**message, "id": "a.b"})


def test_a_specification_is_checked_in_depth() -> None:
    validator = _validator("command.sandbox.create")
    sent: dict[str, Any] = {"id": "c-1", "type": "sandbox.create"}
    assert validator.is_valid({**sent, "data": {"spec": {"resources": {"pids": 32}}}})
    assert not validator.is_valid({**sent, "data": {"spec": {"resources": {"pids": 31}}}})
    assert not validator.is_valid({**sent, "data": {"spec": {"agent_id": "a\n"}}})


def test_a_command_that_needs_data_says_so() -> None:
    assert not _validator("command.sandbox.fork").is_valid({"id": "c-1", "type": "sandbox.fork"})
    assert _validator("command.sandbox.start").is_valid({"id": "c-1", "type": "sandbox.start"})


def test_an_answer_is_valid_with_a_result_or_a_failure() -> None:
    state = fold(numbered([CREATING, CREATED, STARTED, begun(), output(b"a", 0), begun("y"), completed("y")]))
    validator = _validator("answer.sandbox")
    validator.validate(json.loads(codec.encode({"result": state, "failure": None})))
    validator.validate({"failure": {"code": "INVALID", "message": "no"}})
    assert not validator.is_valid({"result": {"sandbox": "sb"}})


def test_every_struct_that_crosses_the_bus_is_defined() -> None:
    kinds: list[type[msgspec.Struct]] = [*registry.EVENTS.values(), *registry.VITALS.values()]
    kinds += [*registry.COMMANDS.values(), *QUERIES.values(), *ANSWERS.values()]
    names = {kind.__name__ for kind in kinds} | {"DeadLetter", "Reply", "SandboxSpec", "Failure"}
    assert names <= set(JSON_SCHEMA["$defs"])
    assert names <= set(ASYNCAPI["components"]["schemas"])
