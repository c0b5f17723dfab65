"""Frames, without a server."""

import contextlib
from pathlib import Path

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from websockets.frames import Frame, Opcode

from contracts.errors import Invalid
from infra.bus.page import Entry
from services.gateway.live import frames
from services.gateway.live.frames import id_in, read_frame
from services.gateway.live.items import header_of, item_of
from services.gateway.live.orders import ORDERS

TOLD = (Path(__file__).parents[3] / "docs" / "gateway.md").read_text().partition("### Frames")[2].partition("\n## ")[0]
KEYS = st.sampled_from(["type", "id", "command", "payload", "types", "from"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["run", "command", "subscribe", "ping"]),
    lambda inner: st.dictionaries(KEYS, inner, max_size=4) | st.lists(inner, max_size=3),
    max_leaves=8,
)


def _entry(data: bytes, subject: str = "cloche.log.sb.command.output.e") -> Entry:
    return Entry(7, subject, data, "2026-01-31T12:00:00.123456789Z", "id")


@given(st.one_of(st.text(max_size=200), VALUES.map(lambda value: msgspec.json.encode(value).decode())))
def test_any_text_is_a_frame_or_refused_in_our_words(text: str) -> None:
    with contextlib.suppress(Invalid):
        read_frame(text)
    id_in(text)


@given(st.integers(0, 70_000))
def test_the_header_of_a_frame_is_the_one_of_the_protocol(length: int) -> None:
    body = b"x" * length
    assert header_of(length) + body == Frame(Opcode.TEXT, body).serialize(mask=False)


def test_an_event_stands_in_its_frame_byte_for_byte() -> None:
    data = b'{ "type" : "command.output",\t"data": {"data": "\xc3\xa4\\n"} }'
    item = item_of(_entry(data))
    assert item.body == (
        b'{"type":"event","sequence":7,"event_type":"command.output","sandbox_id":"sb",'
        b'"timestamp":"2026-01-31T12:00:00.123456789Z","data":' + data + b"}"
    )


@given(st.one_of(st.binary(max_size=50), st.sampled_from([b'{"a":"\xff"}', b"{}}", b"[" * 5000, b""])))
def test_what_is_no_json_is_told_in_a_frame_that_can_be_read(data: bytes) -> None:
    frame = msgspec.json.decode(item_of(_entry(data, 'cloche.log.s"b.x.y')).body.decode())
    assert frame["sequence"] == 7
    assert "base64" in frame or frame["data"] == msgspec.json.decode(data)


def _row(name: str) -> str:
    (row,) = [line for line in TOLD.splitlines() if line.startswith("| ") and f"`{name}`" in line.split("|")[1]]
    return row


def test_every_frame_and_every_order_is_documented_with_its_fields() -> None:
    event = msgspec.json.decode(item_of(_entry(b"{}")).body)
    kinds = (frames.Connected, frames.Heartbeat, frames.Problem, frames.Result, frames.Subscribed, frames.Pong)
    fields = {str(kind.__struct_config__.tag): kind.__struct_encode_fields__ for kind in kinds}
    fields["event"] = tuple(set(event) - {"type"})
    # Of orders that are also requests, the description of those tells the fields.
    alike = {name for name in ORDERS if "as of `POST" in _row(name)}
    fields |= {name: known.payload.__struct_encode_fields__ for name, known in ORDERS.items() if name not in alike}
    for name, needed in fields.items():
        assert [each for each in needed if each not in _row(name)] == [], name
