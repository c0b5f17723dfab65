"""Plain HTTP through the proxy."""

import asyncio
from collections.abc import Callable

import pytest

from infra.proxy import Limits
from tests.proxy.gate import LOCAL, End
from tests.proxy.rig import Client, answering, get, ok, origin, proxying

CLOSED = 1
"""A port on which nobody listens."""


async def test_a_request_goes_on_and_its_answer_comes_back() -> None:
    heads: list[bytes] = []
    async with origin(answering(ok(), heads=heads)) as port, proxying() as rig, rig.client() as client:
        await client.say(get(port, "/a/b?c=d", "X-Mine: yes"))
        assert await client.answer() == (200, b"hello")
        assert heads == [f"GET /a/b?c=d HTTP/1.1\r\nHost: origin.test:{port}\r\nX-Mine: yes\r\n\r\n".encode()]
        [wanted] = rig.gate.asked
        assert (wanted.via, wanted.host, wanted.method, wanted.path) == ("http", "origin.test", "GET", "/a/b")
        [passage] = rig.gate.passages
        assert passage.connections == ["127.0.0.1"]
        assert await passage.ended() == End(200, len(heads[0]), len(ok()), None)


async def test_what_the_gate_refuses_is_answered_with_its_reason_and_the_connection_stays() -> None:
    async with origin(answering(ok())) as port, proxying() as rig, rig.client() as client:
        await client.say(get(port, host="other.test"))
        status, body = await client.answer()
        assert (status, body) == (
            403,
            f"cloche: other.test:{port} denied: the host is not allowed\nallow it\n".encode(),
        )
        await client.say(get(port))
        assert await client.answer() == (200, b"hello")
        assert rig.gate.refusals == []


async def test_connections_are_kept_on_both_sides_and_each_request_asks() -> None:
    async with origin(answering(ok(b"1"), ok(b"2"), ok(b"3"))) as port, proxying() as rig, rig.client() as client:
        for body in (b"1", b"2", b"3"):
            await client.say(get(port))
            assert await client.answer() == (200, body)
        assert len(rig.gate.asked) == 3
        assert [await each.ended() for each in rig.gate.passages] == [
            End(200, len(f"GET / HTTP/1.1\r\nHost: origin.test:{port}\r\n\r\n"), len(ok(b"1")), None)
        ] * 3


async def test_a_kept_connection_is_not_used_for_another_name_or_address() -> None:
    count = 0

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal count
        count += 1
        await answering(ok(), ok(), ok())(reader, writer)

    hosts = {"origin.test": LOCAL, "second.test": LOCAL}
    async with origin(handle) as port, proxying(hosts=hosts) as rig, rig.client() as client:
        for host in ("origin.test", "second.test", "origin.test"):
            await client.say(get(port, host=host))
            assert (await client.answer())[0] == 200
        assert count == 2
        hosts["origin.test"] = ("127.0.0.2",)
        await client.say(get(port))
        status, _ = await client.answer()
        assert status == 502


async def test_a_kept_connection_that_the_server_closed_is_replaced() -> None:
    async with origin(answering(ok())) as port, proxying() as rig, rig.client() as client:
        for _ in range(3):
            await client.say(get(port))
            assert await client.answer() == (200, b"hello")


async def test_requests_that_come_at_once_are_answered_in_their_order() -> None:
    async with origin(answering(ok(b"1"), ok(b"2"), ok(b"3"))) as port, proxying() as rig, rig.client() as client:
        await client.say(get(port) * 3)
        assert [(await client.answer())[1] for _ in range(3)] == [b"1", b"2", b"3"]


async def test_a_body_is_passed_on_while_it_comes() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while (line := await reader.readuntil(b"\r\n")) != b"0\r\n":
            data = await reader.readexactly(int(line, 16) + 2)
            writer.write(line + data)
        writer.write(b"0\r\n\r\n")

    async with origin(echo) as port, proxying() as rig, rig.client() as client:
        await client.say(
            f"POST http://origin.test:{port}/ HTTP/1.1\r\nHost: origin.test:{port}\r\n"
            "Transfer-Encoding: chunked\r\n\r\n".encode()
        )
        assert b"chunked" in await client.head()
        for word in (b"one", b"three"):
            await client.say(b"%x\r\n%b\r\n" % (len(word), word))
            assert await client.reader.readuntil(word + b"\r\n") == b"%x\r\n%b\r\n" % (len(word), word)
        await client.say(b"0\r\n\r\n")
        assert await client.reader.readuntil(b"0\r\n\r\n") == b"0\r\n\r\n"


async def test_a_client_that_expects_to_be_told_to_continue_is() -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert b"Expect: 100-continue" in await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        assert await reader.readexactly(4) == b"body"
        writer.write(ok())

    async with origin(handle) as port, proxying() as rig, rig.client() as client:
        await client.say(
            f"PUT http://origin.test:{port}/ HTTP/1.1\r\nHost: origin.test:{port}\r\nContent-Length: 4\r\n"
            "Expect: 100-continue\r\n\r\n".encode()
        )
        assert await client.head() == b"HTTP/1.1 100 Continue\r\n\r\n"
        await client.say(b"body")
        assert await client.answer() == (200, b"hello")


async def test_an_answer_before_the_body_has_come_is_passed_on_and_ends_the_connection() -> None:
    answer = b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nno!"
    async with origin(answering(answer)) as port, proxying() as rig, rig.client() as client:
        await client.say(
            f"PUT http://origin.test:{port}/ HTTP/1.1\r\nHost: origin.test:{port}\r\n"
            "Content-Length: 1000000\r\n\r\nbegun".encode()
        )
        head = await client.head()
        assert head.startswith(b"HTTP/1.1 413 ")
        assert b"Connection: close" in head
        assert await client.rest() == b"no!"


@pytest.mark.parametrize(
    ("request_line", "answer", "passed"),
    [
        ("HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"),
        ("GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\nEtag: x\r\n\r\n",
         b"HTTP/1.1 304 Not Modified\r\nEtag: x\r\nContent-Length: 5\r\n\r\n"),
        ("DELETE", b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", b"HTTP/1.1 204 No Content\r\n\r\n"),
        ("GET", b"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", b"HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n"),
    ],
)  # fmt: skip
async def test_an_answer_without_a_body_ends_with_its_head(request_line: str, answer: bytes, passed: bytes) -> None:
    async with origin(answering(answer, ok())) as port, proxying() as rig, rig.client() as client:
        await client.say(get(port).replace(b"GET", request_line.encode()))
        assert await client.head() == passed
        await client.say(get(port))
        assert await client.answer() == (200, b"hello")


async def test_an_answer_that_ends_with_the_connection_ends_the_clients_too() -> None:
    answer = b"HTTP/1.1 200 OK\r\nX: y\r\n\r\nall that comes"
    async with origin(answering(answer)) as port, proxying() as rig:
        said = await rig.said(get(port))
        assert said == b"HTTP/1.1 200 OK\r\nX: y\r\nConnection: close\r\n\r\nall that comes"
        assert (await rig.gate.passages[0].ended()).error is None


async def test_trailers_are_passed_on() -> None:
    answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n0\r\nDigest: abc\r\n\r\n"
    async with origin(answering(answer)) as port, proxying() as rig, rig.client() as client:
        await client.say(get(port))
        await client.head()
        assert await client.reader.readuntil(b"\r\n\r\n") == b"5\r\nhello\r\n0\r\nDigest: abc\r\n\r\n"


async def test_a_client_of_the_older_version_gets_no_chunks() -> None:
    answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n3\r\nyou\r\n0\r\n\r\n"
    async with origin(answering(answer)) as port, proxying() as rig:
        said = await rig.said(f"GET http://origin.test:{port}/ HTTP/1.0\r\nConnection: keep-alive\r\n\r\n".encode())
        assert said == b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhelloyou"


async def test_a_client_of_the_older_version_can_keep_its_connection() -> None:
    async with origin(answering(ok(), ok())) as port, proxying() as rig, rig.client() as client:
        for _ in range(2):
            await client.say(f"GET http://origin.test:{port}/ HTTP/1.0\r\nConnection: keep-alive\r\n\r\n".encode())
            assert b"Connection: keep-alive" in await client.head()
            assert await client.reader.readexactly(5) == b"hello"


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nx",
        b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX : y\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: y\r\n z\r\n\r\n",
        b"HTTP/1.1 200 OK\nContent-Length: 0\n\n",
        b"HTTP/1.1 200 OK\r\nX: \x00\r\n\r\n",
        b"HTTP/2 200 OK\r\n\r\n",
        b"HTTP/1.1 20 OK\r\n\r\n",
        b"HTTP/1.1 999 OK\r\n\r\n",
        b"ICY 200 OK\r\n\r\n",
        b"garbage\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" * 40,
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 O",
        b"",
    ],
)  # fmt: skip
async def test_a_malformed_answer_is_not_passed_on(answer: bytes) -> None:
    async with origin(answering(answer)) as port, proxying() as rig:
        said = await rig.said(get(port))
        final = said.removeprefix(b"HTTP/1.1 100 Continue\r\n\r\n" * 32)
        assert final.startswith(b"HTTP/1.1 502 ")
        assert (await rig.gate.passages[0].ended()).error is not None


async def test_an_answer_that_is_cut_short_is_not_taken_for_a_whole_one() -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this"
    async with origin(answering(answer)) as port, proxying() as rig, rig.client() as client:
        await client.say(get(port))
        await client.head()
        with pytest.raises(ConnectionError):
            await client.rest()
        assert (await rig.gate.passages[0].ended()).error == "the connection was closed in the middle of the answer"


async def test_bytes_after_an_answer_belong_to_no_request() -> None:
    forged = ok(b"right") + ok(b"wrong")
    async with origin(answering(forged, ok(b"never"))) as port, proxying() as rig, rig.client() as client:
        for _ in range(2):
            await client.say(get(port))
            assert await client.answer() == (200, b"right")


async def test_bytes_that_come_while_nothing_is_asked_belong_to_no_request() -> None:
    forge = asyncio.Event()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(ok(b"right"))
        await forge.wait()
        writer.write(ok(b"wrong"))
        await reader.read()

    async with origin(handle) as port, proxying() as rig, rig.client() as client:
        await client.say(get(port))
        assert await client.answer() == (200, b"right")
        [[kept]] = rig.proxy._upstreams._kept.values()
        forge.set()
        while not kept.wire.held:
            await asyncio.sleep(0.01)
        await client.say(get(port))
        assert await client.answer() == (200, b"right")


async def test_a_server_that_is_not_there_is_told_as_such() -> None:
    async with proxying() as rig, rig.client() as client:
        await client.say(get(CLOSED))
        status, body = await client.answer()
        assert (status, body) == (502, b"cloche: origin.test:1 not reached: connection refused\n")
        assert await rig.gate.passages[0].ended() == End(None, 0, 0, "connection refused")


async def test_the_addresses_are_tried_in_their_order() -> None:
    hosts = {"origin.test": ("127.0.0.2", "127.0.0.1")}
    async with origin(answering(ok())) as port, proxying(hosts=hosts) as rig, rig.client() as client:
        await client.say(get(port))
        assert await client.answer() == (200, b"hello")
        assert rig.gate.passages[0].connections == ["127.0.0.1"]


async def test_a_request_that_echoes_credentials_is_refused() -> None:
    async with proxying() as rig:
        for method in (b"TRACE", b"trace", b"TRACK"):
            assert (await rig.said(get(CLOSED).replace(b"GET", method))).startswith(b"HTTP/1.1 405 ")
        assert rig.gate.asked == []
        assert len(rig.gate.refusals) == 3


async def test_a_slow_client_holds_up_the_server_and_not_the_memory() -> None:
    sent = 0
    stuck = asyncio.Event()

    async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
        while True:
            writer.write(bytes(65_536))
            sent += 65_536
            try:
                await asyncio.wait_for(writer.drain(), 0.5)
            except TimeoutError:
                stuck.set()
                await writer.drain()

    async with origin(pour) as port, proxying() as rig, rig.client() as client:
        client.reader._limit = 1024  # type: ignore[attr-defined]  # it reads ahead otherwise
        await client.say(get(port))
        await stuck.wait()
        # The buffers of four sockets, and ours.
        assert sent < 64 * 1024 * 1024


SOON = Limits(gone_timeout_s=0.2)


@pytest.mark.parametrize("leave", [Client.close, Client.vanish])
async def test_a_client_that_has_gone_ends_its_request(leave: Callable[[Client], None]) -> None:
    begun, gone = asyncio.Event(), asyncio.Event()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        begun.set()
        await reader.read()
        gone.set()

    async with origin(handle) as port, proxying(SOON) as rig, rig.client() as client:
        await client.say(get(port))
        await begun.wait()
        leave(client)
        await gone.wait()
        assert (await rig.gate.passages[0].ended()).error == "the client has gone"


@pytest.mark.parametrize("leave", [Client.close, Client.vanish])
async def test_a_client_that_goes_while_it_is_asked_for_leaves_nothing_behind(leave: Callable[[Client], None]) -> None:
    async with proxying(SOON) as rig, rig.client() as client:
        rig.gate.open.clear()
        await client.say(get(CLOSED))
        await rig.gate.arrived.wait()
        leave(client)
        await rig.gate.cancelled.wait()
        assert rig.gate.passages == []


async def test_a_client_that_ended_its_side_is_answered() -> None:
    async with origin(answering(ok())) as port, proxying() as rig, rig.client() as client:
        client.writer.write(get(port))
        client.writer.write_eof()
        assert await client.answer() == (200, b"hello")


async def test_a_permission_that_ends_cuts_both_sides_at_once() -> None:
    begun, gone = asyncio.Event(), asyncio.Event()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly")
        begun.set()
        try:
            await reader.read()
        finally:
            gone.set()

    async with origin(handle) as port, proxying() as rig, rig.client() as client:
        await client.say(get(port))
        await client.head()
        await client.reader.readexactly(4)
        rig.gate.passages[0].cut("not allowed any more")
        with pytest.raises(ConnectionError):
            await client.rest()
        await gone.wait()
        end = await rig.gate.passages[0].ended()
        assert (end.status, end.error) == (200, "not allowed any more")


async def test_closing_the_proxy_ends_what_is_under_way() -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with origin(handle) as port, proxying() as rig, rig.client() as client:
        await client.say(get(port))
        await rig.gate.arrived.wait()
        await rig.proxy.aclose()
        with pytest.raises(ConnectionError):
            await client.rest()
        assert [(await each.ended()).error for each in rig.gate.passages] == ["the proxy was closed"]
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", rig.port)


async def test_a_server_that_says_nothing_is_waited_for_only_so_long() -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with origin(handle) as port, proxying(Limits(idle_timeout_s=0.2)) as rig:
        assert (await rig.said(get(port))).startswith(b"HTTP/1.1 504 ")
        assert (await rig.gate.passages[0].ended()).error == "nothing came for 0.2 s"


SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: origin.test\r\n\r\n"


@pytest.mark.parametrize(
    "further",
    [
        b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"Content-Length: 0\r\nContent-Length: 44\r\n\r\n",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n",
        b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        b"X: y\r\n Content-Length: 44\r\n\r\n",
        b"X: y\nContent-Length: 44\r\n\r\n",
        b"Host: other.test\r\n\r\n",
        b"Connection: Content-Length\r\nContent-Length: 44\r\n\r\n",
    ],
)
async def test_nothing_of_a_smuggled_request_leaves(further: bytes) -> None:
    heads: list[bytes] = []
    async with origin(answering(ok(), heads=heads)) as port, proxying() as rig:
        line = f"POST http://origin.test:{port}/ HTTP/1.1\r\nHost: origin.test:{port}\r\n"
        said = await rig.said(line.encode() + further + SMUGGLED)
        assert said.startswith(b"HTTP/1.1 400 ")
        assert said.count(b"HTTP/1.1") == 1
        assert (heads, rig.gate.passages) == ([], [])
        assert len(rig.gate.refusals) == 1


async def test_a_body_with_a_malformed_chunk_ends_the_request() -> None:
    heard = bytearray()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1000):
            heard.extend(data)

    async with origin(handle) as port, proxying() as rig, rig.client() as client:
        line = f"POST http://origin.test:{port}/ HTTP/1.1\r\nHost: origin.test:{port}\r\n"
        await client.say(line.encode() + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
        await rig.gate.arrived.wait()
        await client.say(b"3\r\nabcX" + SMUGGLED)
        assert (await client.answer())[0] == 400
        assert (await rig.gate.passages[0].ended()).error == "a chunk does not end where its size says"
        assert b"smuggled" not in heard


async def test_what_cannot_be_repeated_is_not_sent_twice() -> None:
    posts = 0

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal posts
        await reader.readuntil(b"\r\n\r\n")
        writer.write(ok())
        await reader.readuntil(b"\r\n\r\n")
        posts += 1

    async with origin(handle) as port, proxying() as rig, rig.client() as client:
        await client.say(get(port))
        assert (await client.answer())[0] == 200
        await client.say(get(port).replace(b"GET", b"POST").replace(b"\r\n\r\n", b"\r\nContent-Length: 1\r\n\r\nx"))
        status, body = await client.answer()
        assert (status, posts) == (502, 1)
        assert b"closed without an answer" in body


async def test_what_is_refused_is_told_without_what_may_be_secret() -> None:
    async with proxying() as rig:
        await rig.said(b"GET http://user:hidden@origin.test/path?key=hidden HTTP/1.1\r\nX: hidden\r\n\r\n")
        await rig.said(b"CONNECT user:hidden@origin.test:80 HTTP/1.1\r\n\r\n")
        assert [each.raw for each in rig.gate.refusals] == [
            "GET http://origin.test/path",
            "CONNECT origin.test:80 HTTP/1.1",
        ]
