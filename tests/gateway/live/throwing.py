"""What is made up and thrown at a WebSocket by hand, and what has to hold of all that comes back."""

import socket
import struct
from collections import Counter
from typing import NamedTuple

import msgspec
from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st

from services.gateway.live.orders import ORDERS
from tests.gateway.live.raw import BINARY, CLOSE, CONT, PING, TEXT, RawFrame, frame

SEED = 9
PATIENCE_S = 30
PONG = 10
TOLD = {"connected", "event", "heartbeat", "error", "result", "subscribed", "pong"}
CODES = {1000, 1002, 1007, 1009}
"""With which it may end: never for a failure of the gateway."""

_words = st.sampled_from(["command", "subscribe", "ping", "event", "x", "", "sb", "..", "\x00", *ORDERS])
_keys = st.sampled_from(["type", "id", "command", "payload", "types", "sandboxes", "from", "sandbox", "key", "exec"])
_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False) | _words,
    lambda inner: st.dictionaries(_keys, inner, max_size=5) | st.lists(inner, max_size=3),
    max_leaves=10,
)
_orders = st.fixed_dictionaries(
    {"type": st.just("command"), "command": st.sampled_from([*ORDERS])},
    optional={"id": _values, "payload": _values, "key": _values, "sandbox": _values},
)
_texts = st.one_of(_values, _orders, _orders).map(msgspec.json.encode)
_bodies = st.one_of(_texts, _texts, st.binary(max_size=200), _texts.map(lambda whole: whole[: len(whole) // 2]))
_right = st.builds(frame, st.just(TEXT), _texts)
_made_up = st.builds(
    frame,
    st.sampled_from([TEXT, TEXT, TEXT, BINARY, CONT, PING, PONG, CLOSE, 3, 11]),
    _bodies,
    fin=st.sampled_from([True, True, True, False]),
    masked=st.sampled_from([True, True, True, True, False]),
)
_sent = st.lists(st.one_of(_right, _made_up, _made_up, st.binary(max_size=40)), min_size=1, max_size=8)


class Target(NamedTuple):
    port: int
    path: str
    token: str


def throw(target: Target, examples: int) -> Counter[int]:
    """The same frames in every run, each list of them over a connection of its own. Blocks.

    Returns how the connections ended: the codes, 0 for one without. Raises AssertionError for an answer that is none.
    """
    ends: Counter[int] = Counter()

    @seed(SEED)
    @settings(max_examples=examples, deadline=None, database=None, phases=[Phase.generate])
    @given(sent=_sent)
    def run(sent: list[bytes]) -> None:
        ends[_thrown(target, b"".join(sent))] += 1

    run()
    return ends


def _thrown(target: Target, sent: bytes) -> int:
    end = 0
    for told in _frames(_answer(target, sent)):
        if told.opcode == TEXT:
            assert msgspec.json.decode(told.data)["type"] in TOLD, told
        elif told.opcode == CLOSE and told.data:
            end = told.code
            assert end in CODES, told
        else:
            assert told.opcode in (PONG, CLOSE), told
    return end


def _answer(target: Target, sent: bytes) -> bytes:
    """All that comes back, after the handshake's."""
    lines = [
        f"GET {target.path} HTTP/1.1",
        f"Host: 127.0.0.1:{target.port}",
        f"Authorization: Bearer {target.token}",
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    ]
    with socket.create_connection(("127.0.0.1", target.port), timeout=PATIENCE_S) as connected:
        connected.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        said = b""
        while b"\r\n\r\n" not in said:
            said += _more(connected)
        head, _, said = said.partition(b"\r\n\r\n")
        assert b" 101 " in head, head
        try:
            connected.sendall(sent + frame(CLOSE, struct.pack("!H", 1000)))
            # A frame that was begun and is not whole ends with this.
            connected.shutdown(socket.SHUT_WR)
            while more := connected.recv(1 << 16):
                said += more
        except ConnectionError:
            # It may be cut off while more is on its way.
            pass
    return said


def _more(connected: socket.socket) -> bytes:
    more = connected.recv(1 << 16)
    assert more, "the connection ended before it had begun"
    return more


def _frames(said: bytes) -> list[RawFrame]:
    """The whole ones."""
    found: list[RawFrame] = []
    while len(said) >= 2:
        start, length = 2, said[1] & 0x7F
        if length >= 126:
            start += 2 if length == 126 else 8
            length = int.from_bytes(said[2:start], "big")
        if len(said) < start + length:
            break
        found.append(RawFrame(said[0] & 0x0F, said[start : start + length]))
        said = said[start + length :]
    return found
