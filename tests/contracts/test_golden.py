import datetime
import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from contracts import codec, registry, subjects
from contracts.errors import Invalid
from contracts.message import Command, CommandHead, Event, EventHead
from tests.contracts.golden_files import GOLDEN, golden, golden_tags
from tests.contracts.samples import COMMAND_SAMPLES, EVENT_SAMPLES, NODE, SANDBOX

EVENT_TAGS = {*registry.EVENTS, *registry.VITALS, "dead_letter.executor"}
FREE_MAPS = {"arguments", "options", "summary", "input", "enforcement", "details", "set", "features"}
FREE_MAPS |= {"labels", "node_labels"}
"""Any key is a known one here."""

Path = tuple[str | int, ...]


def _objects(node: Any, path: Path = ()) -> Iterator[Path]:
    """Every object beneath and including this one that has fields of its own."""
    if isinstance(node, dict):
        yield path
        for key, value in node.items():
            if key not in FREE_MAPS:
                yield from _objects(value, (*path, key))
    elif isinstance(node, list):
        for index, value in enumerate(node):
            yield from _objects(value, (*path, index))


def _at(node: Any, path: Path) -> Any:
    for step in path:
        node = node[step]
    return node


def _subject(tag: str) -> str:
    family, verb = tag.split(".")
    return subjects.command(NODE, SANDBOX, family, verb)


def _bytes(message: Any) -> bytes:
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()


def _optional(kind: type[msgspec.Struct]) -> list[msgspec.structs.FieldInfo]:
    return [field for field in msgspec.structs.fields(kind) if not field.required]


def _default(field: msgspec.structs.FieldInfo) -> Any:
    return field.default if field.default is not msgspec.NODEFAULT else field.default_factory()


EVENT_FIELDS = [(tag, field.name) for tag, event in EVENT_SAMPLES.items() for field in _optional(type(event.data))]
SAMPLED: list[tuple[str, msgspec.Struct]] = [
    *((tag, event.data) for tag, event in EVENT_SAMPLES.items()),
    *((tag, sent.data) for tag, sent in COMMAND_SAMPLES.items()),
]
COMMAND_FIELDS = [(tag, field.name) for tag, sent in COMMAND_SAMPLES.items() for field in _optional(type(sent.data))]


def test_every_tag_has_a_sample() -> None:
    assert set(EVENT_SAMPLES) == EVENT_TAGS
    assert set(COMMAND_SAMPLES) == set(registry.COMMANDS)


def test_every_sample_is_of_the_type_that_its_tag_stands_for() -> None:
    assert {tag: type(event.data) for tag, event in EVENT_SAMPLES.items()} == {
        tag: registry.event_type(tag) for tag in EVENT_TAGS
    }
    assert {tag: type(sent.data) for tag, sent in COMMAND_SAMPLES.items()} == registry.COMMANDS


@pytest.mark.parametrize("age", ["", "least/"])
def test_every_tag_has_golden_bytes_and_every_golden_file_a_tag(age: str) -> None:
    assert golden_tags(f"{age}events") == EVENT_TAGS
    assert golden_tags(f"{age}commands") == set(registry.COMMANDS)


@pytest.mark.parametrize("tag", sorted(EVENT_SAMPLES))
def test_an_event_is_its_golden_bytes(tag: str) -> None:
    assert codec.encode(EVENT_SAMPLES[tag]) == golden("events", tag)


@pytest.mark.parametrize("tag", sorted(COMMAND_SAMPLES))
def test_a_command_is_its_golden_bytes(tag: str) -> None:
    assert codec.encode(COMMAND_SAMPLES[tag]) == golden("commands", tag)


@pytest.mark.parametrize("tag", sorted(EVENT_SAMPLES))
def test_golden_bytes_of_an_event_give_the_sample_back(tag: str) -> None:
    head = codec.decode_head(golden("events", tag))
    fact = codec.decode_fact(head)
    assert fact == EVENT_SAMPLES[tag].data
    assert codec.encode(fact) == bytes(head.data), "a field was retyped"
    for name in EventHead.__struct_fields__:
        if name != "data":
            assert getattr(head, name) == getattr(EVENT_SAMPLES[tag], name)


@pytest.mark.parametrize("tag", sorted(COMMAND_SAMPLES))
def test_golden_bytes_of_a_command_give_the_sample_back(tag: str) -> None:
    head, order = codec.decode_command(_subject(tag), golden("commands", tag))
    sample = COMMAND_SAMPLES[tag]
    assert codec.encode(order) == codec.encode(sample.data)
    assert type(order) is type(sample.data)
    assert (head.id, head.source, head.type, head.time) == (sample.id, sample.source, tag, sample.time)
    assert (head.sandboxid, head.node) == (SANDBOX, NODE)


def test_a_sample_leaves_no_field_at_its_default_so_that_every_field_is_on_record() -> None:
    """Except where the default is the only sensible value beside the others, each told here."""
    excused = {
        ("command.completed", "cause"),
        ("command.timed_out", "cause"),
        ("command.run", "shell"),
    }
    left = {
        (tag, field.name)
        for tag, data in SAMPLED
        for field in _optional(type(data))
        if getattr(data, field.name) == _default(field)
    }
    assert left == excused


@pytest.mark.parametrize(("tag", "name"), EVENT_FIELDS)
def test_an_event_from_before_a_field_existed_decodes_to_its_default(tag: str, name: str) -> None:
    older = json.loads(golden("events", tag))
    del older["data"][name]
    fact = codec.decode_fact(codec.decode_head(_bytes(older)))
    assert fact is not None
    (field,) = [field for field in _optional(type(fact)) if field.name == name]
    assert getattr(fact, name) == _default(field)


@pytest.mark.parametrize(("tag", "name"), COMMAND_FIELDS)
def test_a_command_from_before_a_field_existed_decodes_to_its_default(tag: str, name: str) -> None:
    older = json.loads(golden("commands", tag))
    del older["data"][name]
    if (tag, name) == ("command.run", "argv"):
        older["data"]["shell"] = "true"
    _, order = codec.decode_command(_subject(tag), _bytes(older))
    (field,) = [field for field in _optional(type(order)) if field.name == name]
    assert getattr(order, name) == _default(field)


@pytest.mark.parametrize("tag", sorted(EVENT_SAMPLES))
def test_an_event_may_always_be_as_short_as_when_its_tag_was_released(tag: str) -> None:
    head = codec.decode_head(golden("least/events", tag))
    assert type(codec.decode_fact(head)) is registry.event_type(tag)


@pytest.mark.parametrize("tag", sorted(COMMAND_SAMPLES))
def test_a_command_may_always_be_as_short_as_when_its_tag_was_released(tag: str) -> None:
    _, order = codec.decode_command(_subject(tag), golden("least/commands", tag))
    assert type(order) is registry.COMMANDS[tag]


@pytest.mark.parametrize("tag", sorted(EVENT_SAMPLES))
def test_fields_that_a_newer_writer_adds_to_an_event_are_passed_over(tag: str) -> None:
    newer = json.loads(golden("events", tag))
    for path in list(_objects(newer)):
        _at(newer, path)["added_later"] = {"deep": [1, None]}
    head = codec.decode_head(_bytes(newer))
    assert codec.decode_fact(head) == EVENT_SAMPLES[tag].data


@pytest.mark.parametrize("tag", sorted(COMMAND_SAMPLES))
def test_an_unknown_field_in_a_command_is_refused_by_its_name(tag: str) -> None:
    mistyped = json.loads(golden("commands", tag))
    mistyped["data"]["tiemout"] = 1
    with pytest.raises(Invalid, match="unknown field `tiemout`"):
        codec.decode_command(_subject(tag), _bytes(mistyped))


@pytest.mark.parametrize("tag", sorted(COMMAND_SAMPLES))
def test_a_command_needs_only_an_id_and_a_type_around_its_data(tag: str) -> None:
    full = json.loads(golden("commands", tag))
    least = {key: full[key] for key in ("id", "type", "data")}
    head, order = codec.decode_command(_subject(tag), _bytes(least))
    assert (head.source, head.time, head.sandboxid) == ("client", None, None)
    assert codec.encode(order) == codec.encode(COMMAND_SAMPLES[tag].data)


@pytest.mark.parametrize("path", sorted((GOLDEN / "older").glob("*/*.json")), ids=lambda path: path.name)
def test_bytes_of_every_earlier_release_still_decode(path: Any) -> None:
    raw = path.read_bytes()
    tag = json.loads(raw)["type"]
    if path.parent.name == "events":
        assert codec.decode_fact(codec.decode_head(raw)) is not None
    else:
        codec.decode_command(_subject(tag), raw)


def test_envelopes_and_their_heads_have_the_same_fields() -> None:
    extra = {"datacontenttype"}
    assert set(Event.__struct_fields__) - extra == set(EventHead.__struct_fields__)
    assert set(Command.__struct_fields__) - extra == set(CommandHead.__struct_fields__)


def test_times_keep_their_microseconds_and_zone() -> None:
    head = codec.decode_head(golden("events", "command.output"))
    assert head.time == datetime.datetime(2026, 3, 14, 15, 9, 26, 535897, tzinfo=datetime.UTC)
    assert head.time.tzinfo is not None
