import contextlib
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts import codec, registry
from contracts.errors import Invalid
from contracts.message import EventHead
from tests.contracts.golden_files import golden
from tests.contracts.properties import calm

RUN = "cloche.cmd.n.sb.command.run"
DEEP = b"[" * 100_000
NOT_JSON = {
    "empty": b"",
    "space": b" ",
    "null": b"null",
    "number": b"7",
    "string": b'"x"',
    "list": b"[]",
    "not a number": b"NaN",
    "infinite": b"1e999",
    "deep": DEEP,
    "deep and closed": DEEP + b"]" * 100_000,
    "deep objects": b'{"a":' * 100_000,
    "invalid utf-8": b'{"id":"\xff"}',
    "byte order mark": b"\xef\xbb\xbf{}",
    "lone surrogate": b'{"id":"\\ud800"}',
    "half a message": golden("commands", "command.run")[:-1],
    "two messages": golden("commands", "command.run") * 2,
    "a megabyte of nonsense": bytes(range(256)) * 4096,
    "a megabyte of zeros": bytes(1_048_576),
}


def _command(data: str, **envelope: Any) -> bytes:
    head = json.dumps({"id": "c-1", "type": "command.run", **envelope})
    return f'{head[:-1]},"data":{data}}}'.encode("utf-8", "surrogatepass")


def _event(data: bytes, tag: str = "command.output") -> bytes:
    return golden("events", "command.output").partition(b'"data":')[0].replace(b"command.output", tag.encode()) + (
        b'"data":' + data + b"}"
    )


@pytest.mark.parametrize("raw", NOT_JSON.values(), ids=NOT_JSON.keys())
def test_nonsense_is_invalid_and_never_a_crash(raw: bytes) -> None:
    with pytest.raises(Invalid):
        codec.decode_command(RUN, raw)
    with pytest.raises(Invalid):
        codec.decode_head(raw)


@pytest.mark.parametrize("raw", NOT_JSON.values(), ids=NOT_JSON.keys())
def test_nonsense_as_the_data_of_an_event_is_invalid_and_never_a_crash(raw: bytes) -> None:
    with pytest.raises(Invalid):
        codec.decode_fact(codec.decode_head(_event(raw)))


@pytest.mark.parametrize(
    "options", ["1e999", "NaN", "-Infinity", DEEP.decode(), '"\\ud800"', "0x10", "01", "'a'", "9" * 5000]
)
def test_nonsense_in_free_json_is_invalid(options: str) -> None:
    data = '{"runtime":"r","prompt":"p","options":{"x":' + options + "}}"
    with pytest.raises(Invalid):
        codec.decode_command("cloche.cmd.n.sb.agent.start", _command(data, type="agent.start"))


@pytest.mark.parametrize(
    ("data", "field"),
    [
        ('{"argv":["true"],"timeout_ms":"7"}', "timeout_ms"),
        ('{"argv":["true"],"timeout_ms":7.5}', "timeout_ms"),
        ('{"argv":["true"],"timeout_ms":7.0}', "timeout_ms"),
        ('{"argv":["true"],"timeout_ms":true}', "timeout_ms"),
        ('{"argv":["true"],"timeout_ms":0}', "timeout_ms"),
        ('{"argv":["true"],"timeout_ms":86400001}', "timeout_ms"),
        ('{"argv":["true"],"timeout_ms":1e999}', "timeout_ms"),
        ('{"argv":["true"],"stdin":"true"}', "stdin"),
        ('{"argv":["true"],"stdin":1}', "stdin"),
        ('{"argv":["true"],"env":{"A\\n":"b"}}', "env"),
        ('{"argv":["true"],"env":{"A":"b\\u0000c"}}', "env"),
        ('{"argv":["true"],"env":{"A":1}}', "env"),
        ('{"argv":["tr\\u0000ue"]}', "argv"),
        ('{"argv":["true", 7]}', "argv"),
        ('{"argv":"true"}', "argv"),
        ('{"argv":[]}', "argv"),
        ('{"shell":""}', "shell"),
        ('{"argv":["true"],"cwd":"tmp"}', "cwd"),
        ('{"argv":["true"],"pty":{"rows":0}}', "pty.rows"),
        ('{"argv":["true"],"pty":{"rosw":1}}', "rosw"),
        ('{"argv":["true"],"asker":"king"}', "asker"),
        ('{"argv":["true"],"shell":"true"}', "exactly one of `argv` and `shell`"),
        ("{}", "exactly one of `argv` and `shell`"),
    ],
)
def test_a_wrong_value_is_refused_with_the_name_of_its_field(data: str, field: str) -> None:
    with pytest.raises(Invalid) as refused:
        codec.decode_command(RUN, _command(data))
    assert field in refused.value.message


@pytest.mark.parametrize(
    "envelope",
    [
        {"id": ""},
        {"id": "a b"},
        {"id": "a.b"},
        {"id": "a\n"},
        {"id": "a" * 65},
        {"id": 7},
        {"id": None},
        {"specversion": "0.3"},
        {"specversion": "1.0\n"},
        {"type": "command"},
        {"type": "command.run\n"},
        {"time": "yesterday"},
        {"time": "2026-01-01T00:00:00"},
        {"sandboxid": "a.b"},
        {"source": "s" * 201},
    ],
    ids=str,
)
def test_a_wrong_envelope_is_refused(envelope: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        codec.decode_command(RUN, _command('{"argv":["true"]}', **envelope))


def test_a_command_must_be_of_the_type_that_its_subject_says() -> None:
    with pytest.raises(Invalid, match=r"command\.input.*command\.run"):
        codec.decode_command(RUN, _command('{"exec":"x"}', type="command.input"))


def test_a_command_must_be_for_the_sandbox_that_its_subject_says() -> None:
    with pytest.raises(Invalid, match=r"'other'.*'sb'"):
        codec.decode_command(RUN, _command('{"argv":["true"]}', sandboxid="other"))
    assert codec.decode_command(RUN, _command('{"argv":["true"]}', sandboxid="sb")).head.sandboxid == "sb"


def test_a_command_on_a_subject_that_is_none_is_refused() -> None:
    with pytest.raises(Invalid):
        codec.decode_command("cloche.cmd.n.sb.command.fly", _command('{"argv":["true"]}', type="command.fly"))


@pytest.mark.parametrize("tag", ["garden.watered", "command.output2", "sandbox.archived_v2"])
def test_an_unknown_tag_survives_the_first_step_and_is_nothing_in_the_second(tag: str) -> None:
    head = codec.decode_head(_event(b'{"anything":[1,2,{"x":null}]}', tag))
    assert head.type == tag
    assert bytes(head.data) == b'{"anything":[1,2,{"x":null}]}'
    assert codec.decode_fact(head) is None


def test_every_service_has_dead_letters() -> None:
    data = golden("events", "dead_letter.executor").partition(b'"data":')[2][:-1]
    head = codec.decode_head(_event(data, "dead_letter.some_later_service"))
    assert type(codec.decode_fact(head)) is registry.event_type("dead_letter.executor")


@calm
@given(st.binary(max_size=300))
def test_any_bytes_are_an_event_or_invalid(raw: bytes) -> None:
    for candidate in (raw, _event(raw)):
        with contextlib.suppress(Invalid):
            codec.decode_fact(codec.decode_head(candidate))


@calm
@given(st.data())
def test_an_event_with_any_byte_changed_is_an_event_or_invalid(data: st.DataObject) -> None:
    raw = bytearray(golden("events", data.draw(st.sampled_from(sorted(registry.EVENTS)))))
    raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(Invalid):
        codec.decode_fact(codec.decode_head(bytes(raw)))


def test_the_two_steps_read_what_was_written_once() -> None:
    raw = golden("events", "command.output")
    head = codec.decode_head(raw)
    assert isinstance(head, EventHead)
    assert isinstance(head.data, msgspec.Raw)
