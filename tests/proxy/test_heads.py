"""Heads and bodies are read in one way, or not at all."""

import itertools
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from infra.proxy.framing import Chunked, Sized, body_of_request, chunk, last_chunk
from infra.proxy.head import RequestHead, read_request, read_response
from infra.proxy.onward import onward
from infra.proxy.port import Refused
from infra.proxy.target import absolute

PIECES = st.sampled_from(
    [b"GET", b" ", b"/", b"http://a.test/", b"HTTP/1.1", b"HTTP/1.0", b"\r\n", b"\n", b"\r", b":", b"Host", b"a.test",
     b"Content-Length", b"Transfer-Encoding", b"chunked", b"5", b"0", b",", b"\t", b"\x00", b"\xff", b"\x0b", b"X",
     b"Connection", b"close", b"identity", b"-1", b"+5", b"5 5", b"\x85"]
)  # fmt: skip
HEADS = st.lists(PIECES, max_size=30).map(b"".join) | st.binary(max_size=100)


def onward_of(head: RequestHead) -> bytes:
    to = absolute(head)
    return onward(head, to.origin, to.authority(), body_of_request(head)).head


@given(HEADS)
@example(b"GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5")
def test_a_head_that_is_accepted_goes_on_in_a_form_with_one_reading(raw: bytes) -> None:
    try:
        built = onward_of(read_request(raw))
    except Refused:
        return
    assert built.endswith(b"\r\n\r\n")
    assert built.count(b"\r\n\r\n") == 1
    lines = built[:-4].split(b"\r\n")
    assert re.fullmatch(rb"[^\s\x00-\x1f]+ [^\s\x00-\x1f]+ HTTP/1\.1", lines[0])
    assert not re.search(rb"[\x00-\x08\x0a-\x1f\x7f]", b"".join(lines))
    assert all(re.match(rb"[!#-'*+.^-z|~0-9A-Z-]+: ", line + b" ") for line in lines[1:])
    names = [line.split(b":")[0].lower() for line in lines[1:]]
    assert names.count(b"host") == 1
    assert names.count(b"content-length") + names.count(b"transfer-encoding") <= 1


@given(HEADS | HEADS.map(lambda raw: b"HTTP/1.1 200 OK\r\n" + raw))
def test_an_answer_is_read_or_refused_and_nothing_else(raw: bytes) -> None:
    try:
        head = read_response(raw)
    except Refused:
        return
    assert 100 <= head.status < 600
    assert not any(re.search(rb"[\r\n\x00]", field.name + field.value) for field in head.fields.all)


REQUEST = b"GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n"


@pytest.mark.parametrize(
    "raw",
    [
        REQUEST + b"Content-Length: 5\r\nTransfer-Encoding: chunked",
        REQUEST + b"Transfer-Encoding: chunked\r\nContent-Length: 5",
        REQUEST + b"Content-Length: 5\r\nContent-Length: 5",
        REQUEST + b"Content-Length: 5\r\nContent-Length: 6",
        REQUEST + b"Content-Length: 5, 5",
        REQUEST + b"Content-Length: +5",
        REQUEST + b"Content-Length: -5",
        REQUEST + b"Content-Length: 0x5",
        REQUEST + b"Content-Length: 05",
        REQUEST + b"Content-Length: 5 5",
        REQUEST + b"Content-Length: 5_0",
        REQUEST + b"Content-Length:",
        REQUEST + b"Content-Length: 99999999999999999999",
        REQUEST + b"Content-Length: \xb2",
        REQUEST + b"Transfer-Encoding: identity",
        REQUEST + b"Transfer-Encoding: chunked, identity",
        REQUEST + b"Transfer-Encoding: gzip, chunked",
        REQUEST + b"Transfer-Encoding: xchunked",
        REQUEST + b"Transfer-Encoding: \x0bchunked",
        REQUEST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        REQUEST + b"Transfer-Encoding: chunked\r\nTransfer-encoding: x",
        REQUEST + b"Transfer-Encoding:\r\n chunked",
        REQUEST + b"Transfer-Encoding : chunked",
        REQUEST + b"X: y\r\n Transfer-Encoding: chunked",
        REQUEST + b"X: y\nTransfer-Encoding: chunked",
        REQUEST + b"X: y\rTransfer-Encoding: chunked",
        REQUEST + b"X: y\x00z",
        REQUEST + b"X\x00: y",
        REQUEST + b"X y",
        REQUEST + b": y",
        REQUEST + b"X[y]: z",
        REQUEST + b"Host: a.test",
        REQUEST + b"Host: b.test",
        REQUEST + b"Connection: content-length\r\nContent-Length: 5",
        REQUEST + b"Connection: close, Transfer-Encoding\r\nTransfer-Encoding: chunked",
        REQUEST + b"Connection: Host",
        REQUEST + b"Expect: something",
        REQUEST + b"\r\n".join([b"X: y"] * 101),
        b" GET http://a.test/ HTTP/1.1\r\nHost: a.test",
        b"\r\nGET http://a.test/ HTTP/1.1\r\nHost: a.test",
        b"GET  http://a.test/ HTTP/1.1\r\nHost: a.test",
        b"GET http://a.test/ HTTP/1.1 \r\nHost: a.test",
        b"GET\thttp://a.test/ HTTP/1.1\r\nHost: a.test",
        b"GET http://a.test/ x HTTP/1.1\r\nHost: a.test",
        b"GET http://a.test/\x01 HTTP/1.1\r\nHost: a.test",
        b"G(T http://a.test/ HTTP/1.1\r\nHost: a.test",
        b"GET http://a.test/ HTTP/1.1\nHost: a.test",
        b"GET http://a.test/ HTTP/1.2\r\nHost: a.test",
        b"GET http://a.test/ HTTP/2.0\r\nHost: a.test",
        b"GET http://a.test/ HTTP/0.9\r\nHost: a.test",
        b"GET http://a.test/ http/1.1\r\nHost: a.test",
        b"GET http://a.test/",
        b"POST http://a.test/ HTTP/1.0\r\nHost: a.test\r\nTransfer-Encoding: chunked",
        b"GET http://a.test/ HTTP/1.1",
        b"GET http://a.test/ HTTP/1.1\r\nHost: b.test",
        b"GET http://a.test/ HTTP/1.1\r\nHost: a.test:8080",
        b"GET http://a.test:8080/ HTTP/1.1\r\nHost: a.test",
        b"GET http://a.test/ HTTP/1.1\r\nHost:",
        b"GET http://a.test/ HTTP/1.1\r\nHost: a.test, b.test",
        b"GET http://a.test/ HTTP/1.1\r\nHost: a.test@b.test",
        b"GET http://a.test/ HTTP/1.1\r\nHost: a.test/x",
        b"GET / HTTP/1.1\r\nHost: a.test",
        b"GET * HTTP/1.1\r\nHost: a.test",
        b"GET a.test/ HTTP/1.1\r\nHost: a.test",
        b"GET //a.test/ HTTP/1.1\r\nHost: a.test",
        b"GET http:/a.test/ HTTP/1.1\r\nHost: a.test",
        b"GET http:a.test HTTP/1.1\r\nHost: a.test",
        b"GET https://a.test/ HTTP/1.1\r\nHost: a.test",
        b"GET ftp://a.test/ HTTP/1.1\r\nHost: a.test",
        b"GET file:///etc/passwd HTTP/1.1\r\nHost: a.test",
        b"GET http:///x HTTP/1.1\r\nHost: a.test",
        b"GET http://u:p@a.test/ HTTP/1.1\r\nHost: a.test",
        b"GET http://b.test@a.test/ HTTP/1.1\r\nHost: a.test",
        b"GET http://a.test\\@b.test/ HTTP/1.1\r\nHost: a.test",
        b"GET http://a.test#@b.test/ HTTP/1.1\r\nHost: a.test",
        b"GET http://a.test/#x HTTP/1.1\r\nHost: a.test",
        b"GET http://a.test:/ HTTP/1.1\r\nHost: a.test",
        b"GET http://a.test:080/ HTTP/1.1\r\nHost: a.test",
        b"GET http://a%2etest/ HTTP/1.1\r\nHost: a.test",
        b"GET http://a.test\xff/ HTTP/1.1\r\nHost: a.test",
    ],
)
def test_what_two_readers_could_read_in_two_ways_is_refused(raw: bytes) -> None:
    with pytest.raises(Refused):
        onward_of(read_request(raw))


def test_a_head_goes_on_without_what_concerns_the_proxy_alone() -> None:
    raw = (
        b"POST http://A.test:80/x?y=1 HTTP/1.1\r\nhost: a.TEST\r\nProxy-Connection: keep-alive\r\nX-One: 1 \r\n"
        b"Proxy-Authorization: Basic eA==\r\nConnection: x-two, close\r\nX-Two: 2\r\nTE: trailers\r\nUpgrade: h2c\r\n"
        b"Keep-Alive: 5\r\nContent-Length: 3\r\nAccept:\t*/*"
    )
    assert onward_of(read_request(raw)) == (
        b"POST /x?y=1 HTTP/1.1\r\nHost: a.test\r\nX-One: 1\r\nAccept: */*\r\nContent-Length: 3\r\n\r\n"
    )


def test_an_address_without_a_path_gets_one() -> None:
    for target, line in [
        (b"GET http://a.test", b"GET / "),
        (b"GET http://a.test?x", b"GET /?x "),
        (b"OPTIONS http://a.test", b"OPTIONS * "),
    ]:
        assert onward_of(read_request(target + b" HTTP/1.1\r\nHost: a.test")).startswith(line)


def cut(data: bytes, at: list[int]) -> list[bytes]:
    places = sorted({0, len(data), *(each % (len(data) + 1) for each in at)})
    return [data[begin:end] for begin, end in itertools.pairwise(places)]


@given(st.lists(st.binary(min_size=1, max_size=50), max_size=5), st.lists(st.integers(0), max_size=8), st.booleans())
def test_chunks_are_read_alike_however_they_are_cut(payloads: list[bytes], at: list[int], trailers: bool) -> None:
    raw = b"".join(map(chunk, payloads)) + (b"0\r\nX: y\r\n\r\n" if trailers else last_chunk([])) + b"next"
    body = Chunked()
    read = b""
    rest = b""
    for piece in cut(raw, at):
        if body.done:
            rest += piece
        else:
            read += body.feed(piece)
            rest = body.rest
    assert (read, rest) == (b"".join(payloads), b"next")
    assert [field.value for field in body.trailers] == ([b"y"] if trailers else [])


def test_a_storm_of_chunks_is_read_in_turns() -> None:
    body, read = Chunked(), b""
    data = b"1\r\nx\r\n" * 5000 + b"0\r\n\r\nnext"
    turns = 0
    while not body.done:
        read += body.feed(data)
        data = b""
        turns += 1
        assert body.behind != body.done
    assert (turns, read, body.rest) == (6, b"x" * 5000, b"next")


@pytest.mark.parametrize(
    "raw",
    [
        b"5\nhello\r\n0\r\n\r\n", b"5 \r\nhello\r\n", b" 5\r\nhello\r\n", b"0x5\r\nhello\r\n", b"+5\r\nhello\r\n",
        b"-5\r\n", b"\r\n", b"g\r\n", b"5\r\nhelloX", b"5\r\nhello\n", b"5\r\nhell\r\n0\r\n\r\n", b"5\r\nhello!\r\n",
        b"ffffffffffffffff1\r\n", b"5;a\nb\r\nhello\r\n", b"5;\x00\r\nhello\r\n", b"5" + b";" * 2000, b"5_0\r\n",
        b"0\r\nbad trailer\r\n\r\n", b"0\r\n folded\r\n\r\n", b"0\r\nX : y\r\n\r\n", b"0\r\nX: y\nZ: a\r\n\r\n",
        "٥\r\n".encode(),
    ],
)  # fmt: skip
def test_a_malformed_chunk_is_refused_as_soon_as_it_is_seen(raw: bytes) -> None:
    with pytest.raises(Refused):
        Chunked().feed(raw)
    body = Chunked()
    with pytest.raises(Refused):
        for at in range(len(raw)):
            body.feed(raw[at : at + 1])


def test_trailers_cannot_change_how_a_message_is_framed() -> None:
    body = Chunked()
    body.feed(b"0\r\nContent-Length: 5\r\nHost: b.test\r\nX: y\r\nTransfer-Encoding: chunked\r\n\r\n")
    assert [field.name for field in body.trailers] == [b"X"]


@given(st.integers(0, 60), st.binary(max_size=60), st.lists(st.integers(0), max_size=5))
def test_a_sized_body_is_exactly_as_long_as_it_says(length: int, data: bytes, at: list[int]) -> None:
    body, read, rest = Sized(length), b"", b""
    for piece in cut(data, at):
        if body.done:
            rest += piece
        else:
            read += body.feed(piece)
            rest = body.rest
    assert (read, rest) == (data[:length], data[length:])
    assert body.done == (len(data) >= length)
