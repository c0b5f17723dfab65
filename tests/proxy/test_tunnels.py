"""CONNECT and SOCKS."""

import asyncio
import socket
import ssl
from pathlib import Path

import psutil
import pytest

from contracts.spec import Network
from infra.proxy import Limits, looking
from tests.egress.authority import Authority
from tests.proxy.gate import End
from tests.proxy.hellos import client_hello, hello, message, records, server_name
from tests.proxy.rig import answering, get, ok, origin, proxying

MB = 1024 * 1024


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(MB):
        writer.write(data)
        await writer.drain()


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


def socks(host: str, port: int) -> bytes:
    return b"\x05\x01\x00" + b"\x05\x01\x00\x03" + bytes([len(host)]) + host.encode() + port.to_bytes(2)


async def test_bytes_pass_both_ways_and_each_side_ends_by_itself() -> None:
    ended = asyncio.Event()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.read() == b"\x01all of it"
        ended.set()
        writer.write(b"and an answer")

    async with origin(handle) as port, proxying() as rig, rig.tunnel(port) as client:
        await client.say(b"\x01all of it")
        client.writer.write_eof()
        await ended.wait()
        assert await client.rest() == b"and an answer"
        [wanted] = rig.gate.asked
        assert (wanted.via, wanted.host, wanted.port, wanted.method, wanted.path) == (
            "connect", "origin.test", port, "CONNECT", None,
        )  # fmt: skip
        assert await rig.gate.passages[0].ended() == End(200, 10, 13, None)


async def test_the_client_may_go_on_after_the_server_has_ended() -> None:
    heard = asyncio.get_running_loop().create_future()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"goodbye")
        writer.write_eof()
        heard.set_result(await reader.read())

    async with origin(handle) as port, proxying() as rig, rig.tunnel(port) as client:
        assert await client.rest() == b"goodbye"
        await client.say(b"\x01still here")
        client.writer.write_eof()
        assert await heard == b"\x01still here"


async def test_a_server_may_speak_first() -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-server\r\n")
        assert await reader.readline() == b"SSH-2.0-client\r\n"
        writer.write(b"welcome")

    async with origin(handle) as port, proxying() as rig, rig.tunnel(port) as client:
        assert await client.reader.readline() == b"SSH-2.0-server\r\n"
        await client.say(b"SSH-2.0-client\r\n")
        assert await client.rest() == b"welcome"


async def test_tls_to_the_target_passes(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    trusted = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusted.load_verify_locations(authority.certificate)
    server = await asyncio.start_server(echo, "127.0.0.1", 0, ssl=authority.server_context("origin.test"))
    async with server, proxying() as rig, rig.tunnel(server.sockets[0].getsockname()[1]) as client:
        await client.writer.start_tls(trusted, server_hostname="origin.test")
        await client.say(b"secret words")
        assert await client.reader.readexactly(12) == b"secret words"


@pytest.mark.parametrize(
    ("host", "said"),
    [
        ("origin.test", hello("other.test")),
        ("origin.test", hello(None)),
        ("origin.test", records(message(hello("other.test")), 1)),
        ("origin.test", hello("other.test", padding=30_000)),
        ("origin.test", hello("sub.origin.test")),
        ("origin.test", records(client_hello(server_name(b"origin.test.")), 1000)),
        ("origin.test", records(client_hello(server_name(b"origin.test\x00.other.test")), 1000)),
        ("origin.test", records(client_hello(server_name(b"origin.test", b"other.test")), 1000)),
        ("127.0.0.1", hello("origin.test")),
        ("origin.test", b"\x16\x03\x01\x00\x05\x02\x00\x00\x01\x00"),
        ("origin.test", b"GET / HTTP/1.1\r\nHost: other.test\r\n\r\n"),
        ("origin.test", b"GET / HTTP/1.1\r\n\r\n"),
        ("origin.test", b"GET http://other.test/ HTTP/1.1\r\nHost: origin.test\r\n\r\n"),
        ("origin.test", b"TRACE / HTTP/1.1\r\nHost: origin.test\r\n\r\n"),
        ("origin.test", b"POST / HTTP/1.1\r\nHost: origin.test\r\nContent-Length: 1\r\nTransfer-Encoding: x\r\n\r\n"),
        ("origin.test", b"CONNECT other.test:80 HTTP/1.1\r\nHost: other.test:80\r\n\r\n"),
    ],
)  # fmt: skip
async def test_nothing_of_what_names_somebody_else_leaves(host: str, said: bytes) -> None:
    heard = asyncio.get_running_loop().create_future()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.set_result(await reader.read())

    async with origin(handle) as port, proxying() as rig, rig.tunnel(port, host) as client:
        await client.say(said)
        await client.rest()
        client.close()
        assert await heard == b""
        over = await rig.gate.passages[0].over
        assert isinstance(over, str) or rig.gate.refusals


async def test_a_refused_hello_is_told_to_the_gate_and_to_the_client() -> None:
    async with origin(silent) as port, proxying() as rig, rig.tunnel(port) as client:
        await client.say(hello("other.test"))
        assert await client.rest() == b"\x15\x03\x03\x00\x02\x02\x31"
        assert await rig.gate.passages[0].over == "the TLS client names another server, 'other.test'"


async def test_a_server_that_talks_on_does_not_disturb_a_refusal(caplog: pytest.LogCaptureFixture) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(b"talk")
            await writer.drain()
            await asyncio.sleep(0)

    async with origin(talk) as port, proxying() as rig, rig.tunnel(port) as client:
        await client.reader.readexactly(4)
        await client.say(hello("other.test"))
        assert (await client.rest()).endswith(b"\x15\x03\x03\x00\x02\x02\x31")
        assert "other.test" in str(await rig.gate.passages[0].over)
    assert caplog.records == []


async def test_a_request_in_a_tunnel_whose_server_has_ended_is_not_answered(caplog: pytest.LogCaptureFixture) -> None:
    async def end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write_eof()
        await reader.read()

    async with origin(end) as port, proxying() as rig, rig.tunnel(port) as client:
        assert await client.rest() == b""
        await client.say(f"GET / HTTP/1.1\r\nHost: origin.test:{port}\r\n\r\n".encode())
        client.writer.write_eof()
        await rig.gate.passages[0].ended()
    assert caplog.records == []


async def test_a_socks_request_that_does_not_end_is_told() -> None:
    async with proxying(Limits(head_timeout_s=0.2)) as rig:
        assert await rig.said(b"\x05\x01\x00\x05") == b"\x05\x00"
        assert [each.reason for each in rig.gate.refusals] == ["the request took longer than 0.2 s"]


async def test_a_hello_in_single_bytes_is_looked_at_as_a_whole() -> None:
    said = hello("origin.test")
    async with origin(echo) as port, proxying() as rig, rig.tunnel(port) as client:
        client.writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for at in range(len(said)):
            await client.say(said[at : at + 1])
            await asyncio.sleep(0)
        assert await client.reader.readexactly(len(said)) == said


async def test_http_in_a_tunnel_is_served_for_as_long_as_it_is_for_the_target() -> None:
    heads: list[bytes] = []
    async with origin(answering(ok(b"1"), ok(b"2"), heads=heads)) as port, proxying() as rig:
        async with rig.tunnel(port) as client:
            for body in (b"1", b"2"):
                await client.say(f"GET /{body.decode()} HTTP/1.1\r\nHost: origin.test:{port}\r\nTE: x\r\n\r\n".encode())
                assert await client.answer() == (200, body)
            await client.say(f"GET / HTTP/1.1\r\nHost: other.test:{port}\r\n\r\n".encode())
            status, _ = await client.answer()
            assert status == 400
        assert heads[0] == f"GET /1 HTTP/1.1\r\nHost: origin.test:{port}\r\n\r\n".encode()
        assert len(heads) == 2
        assert rig.gate.refusals[0].reason == "Host does not agree with the address"
        asked = [(each.via, each.host, each.port, each.method, each.path) for each in rig.gate.asked]
        place = ("connect", "origin.test", port)
        assert asked == [(*place, "CONNECT", None), (*place, "GET", "/1"), (*place, "GET", "/2")]
        told = [(await each.ended()).sent for each in rig.gate.passages]
        assert told == [0, *map(len, heads)]


async def test_a_request_in_a_tunnel_that_is_denied_by_then_does_not_leave() -> None:
    heads: list[bytes] = []
    hosts = {"origin.test": ("127.0.0.1",)}
    async with origin(answering(ok(), heads=heads)) as port, proxying(hosts=hosts) as rig, rig.tunnel(port) as client:
        hosts.clear()
        await client.say(f"GET / HTTP/1.1\r\nHost: origin.test:{port}\r\n\r\n".encode())
        assert (await client.answer())[0] == 403
        assert heads == []


@pytest.mark.parametrize("said", [b"\x01\x02", b"SSH-2.0-x\r\n", b"knock\r\n", b"GET / HTTQ/1.1\r\n"])
async def test_what_is_neither_tls_nor_http_is_refused_on_the_ports_of_the_web(
    said: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with origin(silent) as port, proxying() as rig:
        # Only root could listen on a real one.
        monkeypatch.setattr(looking, "WEB_PORTS", frozenset((port,)))
        async with rig.tunnel(port) as client:
            await client.say(said)
            assert await client.rest() == b""
            assert await rig.gate.passages[0].over == f"neither TLS nor HTTP on port {port}"


async def test_on_the_ports_of_the_web_nothing_comes_before_the_client_has_spoken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"a download")
        await writer.drain()
        written.set()
        await reader.read()

    async with origin(talk) as port, proxying() as rig:
        monkeypatch.setattr(looking, "WEB_PORTS", frozenset((port,)))
        async with rig.tunnel(port) as client:
            await written.wait()
            await client.say(b"\x01")
            assert await client.rest() == b""
            assert await rig.gate.passages[0].over == f"neither TLS nor HTTP on port {port}"


async def test_a_server_of_the_web_that_ends_before_the_client_has_spoken_ends_the_client(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write_eof()
        await reader.read()

    async with origin(end) as port, proxying() as rig:
        monkeypatch.setattr(looking, "WEB_PORTS", frozenset((port,)))
        async with rig.tunnel(port) as client:
            assert await client.rest() == b""


async def test_what_came_before_a_refusal_is_told_with_its_bytes() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"a download")
        await reader.read()

    async with origin(talk) as port, proxying() as rig, rig.tunnel(port) as client:
        assert await client.reader.readexactly(10) == b"a download"
        await client.say(hello("other.test"))
        await client.rest()
        client.close()
        told = End(200, 0, 10, "the TLS client names another server, 'other.test'")
        assert await rig.gate.passages[0].ended() == told


REQUESTS = [
    b"\r\nGET / HTTP/1.1\r\nHost: other.test\r\n\r\n",
    b"\n \r\nGET / HTTP/1.1\r\nHost: other.test\r\n\r\n",
    b"M_SEARCH*1 / HTTP/1.1\r\nHost: other.test\r\n\r\n",
    b"x" * 2000 + b" / HTTP/1.1\r\nHost: other.test\r\n\r\n",
    b"GET\t/\x0bHTTP/1.1 \nHost: other.test\n\n",
    b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\nHost: other.test\r\n\r\n",
    b"GET /" + b"x" * 70_000,
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
]


@pytest.mark.parametrize("said", REQUESTS, ids=range(len(REQUESTS)))
async def test_what_a_lenient_server_would_take_for_a_request_is_held_to_the_target(said: bytes) -> None:
    heard = asyncio.get_running_loop().create_future()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.set_result(await reader.read())

    async with origin(handle) as port, proxying() as rig, rig.tunnel(port) as client:
        await client.say(said)
        await client.rest()
        client.close()
        assert await heard == b""
        over = await rig.gate.passages[0].over
        assert isinstance(over, str) or rig.gate.refusals


@pytest.mark.parametrize("said", REQUESTS, ids=range(len(REQUESTS)))
def test_no_beginning_of_a_request_is_taken_for_something_else(said: bytes) -> None:
    end = said.find(b"HTTP/") if b"HTTP/" in said else len(said)
    for length in {*range(1, min(end, 2010)), min(end, 60_000)}:
        assert looking.FirstLine().read(said[:length]) is None


async def test_half_a_line_is_passed_on_after_a_while_where_other_things_than_requests_are_said() -> None:
    async def knock(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.readexactly(5) == b"knock"
        writer.write(b"who is there?")
        assert await reader.readexactly(4) == b" me\n"
        writer.write(b"welcome")

    async with origin(knock) as port, proxying() as rig, rig.tunnel(port) as client:
        await client.say(b"knock")
        assert await client.reader.readexactly(13) == b"who is there?"
        await client.say(b" me\n")
        assert await client.rest() == b"welcome"
        client.close()
        assert (await rig.gate.passages[0].ended()).sent == 9


async def test_what_was_passed_on_as_half_a_line_cannot_become_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looking, "PATIENCE_S", 0.05)
    begun, heard = asyncio.Event(), asyncio.get_running_loop().create_future()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = await reader.readexactly(3)
        begun.set()
        heard.set_result(first + await reader.read())

    async with origin(handle) as port, proxying() as rig, rig.tunnel(port) as client:
        await client.say(b"GET")
        await begun.wait()
        await client.say(b" / HTTP/1.1\r\nHost: other.test\r\n\r\n")
        assert await client.rest() == b""
        client.close()
        assert await heard == b"GET"
        assert await rig.gate.passages[0].ended() == End(200, 3, 0, "a request whose first line came too slowly")


async def test_tls_and_http_pass_on_the_ports_of_the_web(monkeypatch: pytest.MonkeyPatch) -> None:
    async with origin(echo) as port, proxying() as rig:
        monkeypatch.setattr(looking, "WEB_PORTS", frozenset((port,)))
        async with rig.tunnel(port) as client:
            await client.say(hello("origin.test"))
            assert await client.reader.readexactly(1) == b"\x16"
    async with origin(answering(ok())) as port, proxying() as rig:
        monkeypatch.setattr(looking, "WEB_PORTS", frozenset((port,)))
        async with rig.tunnel(port) as client:
            await client.say(f"GET / HTTP/1.1\r\nHost: origin.test:{port}\r\n\r\n".encode())
            assert await client.answer() == (200, b"hello")


def test_the_ports_of_the_web_are_those_that_are_allowed_by_default() -> None:
    assert frozenset(Network().allowed_ports) == looking.WEB_PORTS


async def test_socks_takes_names_and_addresses() -> None:
    async with origin(echo) as port, proxying() as rig:
        for request, host in [
            (socks("Origin.TEST.", port), "origin.test"),
            (b"\x05\x02\x02\x00\x05\x01\x00\x01\x7f\x00\x00\x01" + port.to_bytes(2), "127.0.0.1"),
            (b"\x05\x01\x00\x05\x01\x00\x04" + bytes(10) + b"\xff\xff\x7f\x00\x00\x01" + port.to_bytes(2), "127.0.0.1"),
            (socks("0x7f.1", port), "127.0.0.1"),
        ]:
            async with rig.client() as client:
                await client.say(request)
                assert await client.reader.readexactly(12) == b"\x05\x00" + b"\x05\x00\x00\x01" + bytes(6)
                await client.say(b"\x01abc")
                assert await client.reader.readexactly(4) == b"\x01abc"
            assert (rig.gate.asked[-1].via, rig.gate.asked[-1].host) == ("socks", host)


@pytest.mark.parametrize(
    ("request_", "reply"),
    [
        (b"\x05\x01\x02", b"\x05\xff"),
        (b"\x05\x00", b"\x05\xff"),
        (b"\x04\x01\x00\x50\x7f\x00\x00\x01\x00", b"\x00\x5b" + bytes(6)),
        (b"\x05\x01\x00\x05\x02\x00\x01\x7f\x00\x00\x01\x00\x50", b"\x05\x00\x05\x07"),
        (b"\x05\x01\x00\x05\x03\x00\x01\x7f\x00\x00\x01\x00\x50", b"\x05\x00\x05\x07"),
        (b"\x05\x01\x00\x05\x01\x00\x09", b"\x05\x00\x05\x08"),
        (b"\x05\x01\x00\x04\x01\x00\x01", b"\x05\x00\x05\x01"),
        (socks("bad name", 80), b"\x05\x00\x05\x01"),
        (socks("origin.test", 0), b"\x05\x00\x05\x01"),
    ],
)
async def test_what_is_not_spoken_of_socks_is_refused_with_its_code(request_: bytes, reply: bytes) -> None:
    async with proxying() as rig:
        assert (await rig.said(request_)).startswith(reply)
        assert rig.gate.asked == []
        assert len(rig.gate.refusals) == 1


async def test_socks_tells_why_it_does_not_connect() -> None:
    async with proxying() as rig:
        assert (await rig.said(socks("other.test", 80)))[2:4] == b"\x05\x02"
        assert (await rig.said(socks("origin.test", 1)))[2:4] == b"\x05\x05"


@pytest.mark.parametrize(
    "line",
    ["CONNECT origin.test", "CONNECT http://origin.test:80/", "CONNECT origin.test:0", "CONNECT u@origin.test:80",
     "CONNECT origin.test:80/x", "CONNECT :80", "CONNECT [::1%eth0]:80", "CONNECT origin.test:99999"],
)  # fmt: skip
async def test_a_connect_to_an_odd_target_is_refused(line: str) -> None:
    async with proxying() as rig:
        assert (await rig.said(f"{line} HTTP/1.1\r\n\r\n".encode())).startswith(b"HTTP/1.1 400 ")
        assert rig.gate.asked == []


async def test_a_connect_whose_host_says_something_else_is_refused() -> None:
    async with proxying() as rig:
        for further in ("Host: other.test", "Content-Length: 5", "Transfer-Encoding: chunked"):
            said = await rig.said(f"CONNECT origin.test:80 HTTP/1.1\r\n{further}\r\n\r\n".encode())
            assert said.startswith(b"HTTP/1.1 400 ")
        assert rig.gate.asked == []


async def test_a_tunnel_that_is_denied_or_leads_nowhere_is_answered() -> None:
    async with proxying() as rig:
        assert (await rig.said(b"CONNECT other.test:80 HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 403 ")
        assert (await rig.said(b"CONNECT origin.test:1 HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 502 ")
        assert await rig.gate.passages[0].ended() == End(None, 0, 0, "connection refused")


async def test_a_permission_that_ends_cuts_the_tunnel() -> None:
    gone = asyncio.Event()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await echo(reader, writer)
        finally:
            gone.set()

    async with origin(handle) as port, proxying() as rig, rig.tunnel(port) as client:
        await client.say(b"\x01abc")
        await client.reader.readexactly(4)
        rig.gate.passages[0].cut("not allowed any more")
        with pytest.raises(ConnectionError):
            await client.rest()
        await gone.wait()
        assert await rig.gate.passages[0].ended() == End(200, 4, 4, "not allowed any more")


async def test_what_never_went_does_not_count_as_sent() -> None:
    over = asyncio.Event()

    async def deaf(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await over.wait()

    async with origin(deaf) as port, proxying() as rig, rig.tunnel(port) as client:
        client.writer.write(b"\x01" * 64 * MB)
        [connection] = rig.proxy._connections
        while connection.upstream is None or not connection.upstream.full:
            await asyncio.sleep(0.01)
        taken = connection.received
        rig.gate.passages[0].cut("cut")
        end = await rig.gate.passages[0].ended()
        assert 0 < end.sent < taken - 200_000
        over.set()


async def test_a_tunnel_in_which_nothing_moves_is_ended() -> None:
    async with origin(silent) as port, proxying(Limits(idle_timeout_s=0.2)) as rig, rig.tunnel(port) as client:
        await client.say(b"\x01")
        with pytest.raises(ConnectionError):
            await client.rest()
        assert (await rig.gate.passages[0].ended()).error == "nothing came for 0.2 s"


async def test_a_hello_that_does_not_end_is_not_waited_for() -> None:
    async with origin(silent) as port, proxying(Limits(head_timeout_s=0.2)) as rig, rig.tunnel(port) as client:
        await client.say(hello("origin.test")[:-1])
        with pytest.raises(ConnectionError):
            await client.rest()
        assert (await rig.gate.passages[0].ended()).error == "the request took longer than 0.2 s"


@pytest.mark.asyncio(loop_factories=["uvloop"])
async def test_much_passes_both_ways_at_once_in_little_memory() -> None:
    total = 200 * MB
    async with origin(echo) as port, proxying() as rig, rig.tunnel(port) as client:
        await client.say(b"\x00")
        await client.reader.readexactly(1)
        before = psutil.Process().memory_info().rss

        async def send() -> None:
            block = bytes(256 * 1024)
            for _ in range(total // len(block)):
                await client.say(block)
            client.writer.write_eof()

        sending = asyncio.ensure_future(send())
        received = most = 0
        while data := await client.reader.read(MB):
            received += len(data)
            most = max(most, psutil.Process().memory_info().rss)
        await sending
        assert received == total
        assert await rig.gate.passages[0].ended() == End(200, total + 1, total + 1, None)
        assert most - before < 32 * MB


async def test_a_pipelined_request_after_a_refused_connect_is_not_served() -> None:
    async with origin(answering(ok())) as port, proxying() as rig:
        said = await rig.said(b"CONNECT other.test:80 HTTP/1.1\r\n\r\n" + get(port))
        assert said.count(b"HTTP/1.1 ") == 1
        assert len(rig.gate.asked) == 1
