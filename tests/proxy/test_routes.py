"""Routes: a credential that is added on the way and never seen."""

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec import Struct

from infra.proxy import Proxy, Refused, Route
from infra.proxy.route import verifying
from tests.egress.authority import Authority
from tests.proxy.gate import FakeGate
from tests.proxy.rig import Client, Handler, Rig, answering, listener, ok, origin

SECRET = "sk-very-secret-0123456789"


class Trust(Struct):
    server: ssl.SSLContext
    client: ssl.SSLContext


@pytest.fixture(scope="module")
def trust(tmp_path_factory: pytest.TempPathFactory) -> Trust:
    authority = Authority(tmp_path_factory.mktemp("authority"))
    return Trust(authority.server_context("origin.test"), verifying(authority.certificate))


@asynccontextmanager
async def routed(trust: Trust, handler: Handler, secret: str | None = SECRET, **changes: str) -> AsyncIterator[Rig]:
    def credential() -> str:
        if secret is None:
            raise Refused("the credential 'api' is not in the store", 502)
        return secret

    named = {"name": "api", "host": "origin.test", **changes}
    gate, listening = FakeGate({"origin.test": ("127.0.0.1",), "wrong.test": ("127.0.0.1",)}), listener()
    place = listening.getsockname()[1]
    async with origin(handler, trust.server) as port, Proxy(gate) as proxy:
        await proxy.serve_routes(listening, {"api": Route(port=port, secret=credential, **named)}, trust.client)
        yield Rig(proxy, gate, place)
    assert all(passage.over.done() for passage in gate.passages)


async def ask(client: Client, path: str, *further: str) -> None:
    await client.say("\r\n".join([f"GET {path} HTTP/1.1", "Host: 127.0.0.1:3129", *further]).encode() + b"\r\n\r\n")


async def test_the_credential_is_added_on_the_way(trust: Trust) -> None:
    heads: list[bytes] = []
    async with routed(trust, answering(ok(), ok(), heads=heads)) as rig, rig.client() as client:
        for _ in range(2):
            await ask(client, "/api/v1/x?y=z", "authorization: mine", "Accept-Encoding: gzip", "X: y")
            assert await client.answer() == (200, b"hello")
        [first, second] = heads
        assert first == second
        lines = first.decode().split("\r\n")
        assert lines[0] == "GET /v1/x?y=z HTTP/1.1"
        assert lines[1].startswith("Host: origin.test:")
        assert lines[2:] == ["X: y", "Accept-Encoding: identity", f"Authorization: Bearer {SECRET}", "", ""]
        wanted = rig.gate.asked[0]
        assert (wanted.via, wanted.host, wanted.path, wanted.secret) == ("route", "origin.test", "/v1/x", "api")
        assert (await rig.gate.passages[0].ended()).status == 200


async def test_the_header_and_its_shape_are_the_routes(trust: Trust) -> None:
    heads: list[bytes] = []
    shape = {"header": "X-Api-Key", "template": "{secret}"}
    async with routed(trust, answering(ok(), heads=heads), **shape) as rig, rig.client() as client:
        await ask(client, "/api", "x-api-key: mine", "Authorization: stays")
        await client.answer()
    assert f"X-Api-Key: {SECRET}\r\n".encode() in heads[0]
    assert b"mine" not in heads[0]
    assert b"Authorization: stays" in heads[0]
    assert heads[0].startswith(b"GET / HTTP/1.1\r\n")


@pytest.mark.parametrize("kind", ["sized", "chunked", "close"])
async def test_a_credential_that_comes_back_is_masked(trust: Trust, kind: str) -> None:
    text = f"you said {SECRET}, {SECRET[:10]} and {SECRET}".encode()

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert SECRET.encode() in await reader.readuntil(b"\r\n\r\n")
        framing = {"sized": f"Content-Length: {len(text)}", "chunked": "Transfer-Encoding: chunked", "close": "X: y"}
        writer.write(f"HTTP/1.1 200 {SECRET}\r\nX-Echo: Bearer {SECRET}\r\n{framing[kind]}\r\n\r\n".encode())
        for at in range(0, len(text), 7):
            piece = text[at : at + 7]
            writer.write(b"%x\r\n%b\r\n" % (len(piece), piece) if kind == "chunked" else piece)
            await writer.drain()
        if kind == "chunked":
            writer.write(f"0\r\nX-Trailer: {SECRET}\r\n\r\n".encode())

    async with routed(trust, echo) as rig, rig.client() as client:
        await ask(client, "/api/", "Connection: close")
        said = await client.rest()
    stars = b"*" * len(SECRET)
    assert SECRET.encode() not in said
    assert b"X-Echo: Bearer " + stars in said
    if kind == "chunked":
        assert b"X-Trailer: " + stars in said
        assert b"".join(said.split(b"\r\n")[5:]).count(b"*") == 3 * len(SECRET)
    else:
        assert said.endswith(b"you said " + stars + b", " + SECRET[:10].encode() + b" and " + stars)


async def test_a_stream_is_not_held_up_by_the_masking(trust: Trust) -> None:
    go_on = asyncio.Event()

    async def stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n")
        await go_on.wait()
        writer.write(b"0\r\n\r\n")

    async with routed(trust, stream) as rig, rig.client() as client:
        await ask(client, "/api/events")
        await client.head()
        assert await client.reader.readuntil(b"\n\n\r\n") == b"9\r\ndata: 1\n\n\r\n"
        go_on.set()
        await client.reader.readuntil(b"0\r\n\r\n")


async def test_a_beginning_of_the_credential_comes_when_anything_else_would(trust: Trust) -> None:
    """Else one who has guesses echoed could find it character by character."""
    guesses = [b"." * 200 + guess for guess in (SECRET[:12].encode(), b"0" * 12)]
    go_on = asyncio.Event()

    async def stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for guess in guesses:
            writer.write(b"%x\r\n%b\r\n" % (len(guess), guess))
            await go_on.wait()
            go_on.clear()

    async def pieces(client: Client, text: bytes) -> list[int]:
        found: list[bytes] = []
        while len(b"".join(found)) < len(text):
            size = int(await client.reader.readline(), 16)
            found.append(await client.reader.readexactly(size))
            await client.reader.readline()
        assert b"".join(found) == text
        return [len(each) for each in found]

    async with routed(trust, stream) as rig, rig.client() as client:
        await ask(client, "/api/events")
        await client.head()
        first = await pieces(client, guesses[0])
        go_on.set()
        assert await pieces(client, guesses[1]) == first
        assert len(first) == 2


@pytest.mark.parametrize(
    ("location", "seen"),
    [
        ("https://origin.test:{port}/next?x", "/api/next?x"),
        ("https://origin.test:{port}", "/api/"),
        ("/next", "/api/next"),
        ("https://origin.test.evil.test/next", "https://origin.test.evil.test/next"),
        ("//evil.test/next", "//evil.test/next"),
        ("next", "next"),
    ],
)
async def test_a_redirect_within_the_host_stays_on_the_route(trust: Trust, location: str, seen: str) -> None:
    async def redirect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        port = writer.get_extra_info("sockname")[1]
        to = location.format(port=port)
        writer.write(f"HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n".encode())

    async with routed(trust, redirect) as rig, rig.client() as client:
        await ask(client, "/api/")
        assert f"Location: {seen}\r\n".encode() in await client.head()
        assert len(rig.gate.asked) == 1


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        ("GET /other/ HTTP/1.1", 404),
        ("GET / HTTP/1.1", 404),
        ("GET /ap%69/ HTTP/1.1", 404),
        ("GET http://origin.test/ HTTP/1.1", 400),
        ("GET https://origin.test/api/ HTTP/1.1", 400),
        ("CONNECT origin.test:443 HTTP/1.1", 400),
        ("TRACE /api/ HTTP/1.1", 405),
        ("GET /api/#x HTTP/1.1", 400),
    ],
)
async def test_nothing_but_a_path_of_a_route_is_served(trust: Trust, request_line: str, status: int) -> None:
    async with routed(trust, answering(ok())) as rig:
        said = await rig.said(f"{request_line}\r\nHost: 127.0.0.1:3129\r\n\r\n".encode())
        assert said.startswith(f"HTTP/1.1 {status} ".encode())
        assert rig.gate.asked == []
        assert len(rig.gate.refusals) == 1


async def test_a_host_that_cannot_prove_its_name_gets_nothing(trust: Trust, caplog: pytest.LogCaptureFixture) -> None:
    heads: list[bytes] = []
    async with routed(trust, answering(ok(), heads=heads), host="wrong.test") as rig, rig.client() as client:
        with caplog.at_level(logging.DEBUG):
            await ask(client, "/api/")
            status, body = await client.answer()
        assert status == 502
        assert b"certificate is not trusted" in body
        assert heads == []
        end = await rig.gate.passages[0].ended()
        assert end.error is not None
        assert SECRET not in body.decode() + end.error + caplog.text


@pytest.mark.parametrize("secret", [None, "", "two\r\nX-Injected: lines", "nul\x00", "ключ", " padded "])
async def test_a_credential_that_is_missing_or_no_header_value_is_not_sent(trust: Trust, secret: str | None) -> None:
    async with routed(trust, answering(ok()), secret) as rig, rig.client() as client:
        await ask(client, "/api/")
        status, body = await client.answer()
        assert status == 502
        assert not secret or secret.strip() not in body.decode()
        assert rig.gate.asked == []


async def test_an_answer_that_cannot_be_looked_into_is_not_passed_on(trust: Trust) -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\n\x1f\x8b\x08\x00\x00"
    async with routed(trust, answering(answer)) as rig, rig.client() as client:
        await ask(client, "/api/")
        assert (await client.answer())[0] == 502


async def test_what_comes_back_on_a_websocket_is_masked_too(trust: Trust) -> None:
    async def switch(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        assert b"Upgrade: websocket" in head
        assert b"deflate" not in head
        writer.write(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
        assert await reader.readexactly(4) == b"ping"
        writer.write(f"<{SECRET[:9]}".encode())
        await writer.drain()
        writer.write(f"{SECRET[9:]}>".encode())

    async with routed(trust, switch) as rig, rig.client() as client:
        further = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Extensions: permessage-deflate")
        await ask(client, "/api/socket", *further)
        assert (await client.head()).startswith(b"HTTP/1.1 101 ")
        await client.say(b"ping")
        assert await client.rest() == b"<" + b"*" * len(SECRET) + b">"
        assert (await rig.gate.passages[0].ended()).status == 101


async def test_a_route_does_not_show_its_credential() -> None:
    route = Route(name="api", host="origin.test", secret=lambda: SECRET)
    assert SECRET not in repr(route)
    assert "lambda" not in repr(route)


def test_an_authority_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError):
        verifying(tmp_path / "missing.pem")
