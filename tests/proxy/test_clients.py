"""Programs that people use, through the proxy."""

import asyncio
from pathlib import Path

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ProxyError

from tests.proxy.rig import get, ok, origin, proxying


async def curl(*arguments: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        "curl", "-sS", "--noproxy", "", *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    said, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, said.decode()


async def keep_answering(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while True:
        head = await reader.readuntil(b"\r\n\r\n")
        body = b""
        if b"content-length: 200000" in head.lower():
            if b"100-continue" in head.lower():
                writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            body = await reader.readexactly(200_000)
        writer.write(ok(b"got %d" % len(body)))


async def test_curl_fetches_sends_and_tunnels(tmp_path: Path) -> None:
    (tmp_path / "body").write_bytes(b"x" * 200_000)
    async with origin(keep_answering) as port, proxying() as rig:
        url, proxy = f"http://Origin.TEST:{port}/x", f"127.0.0.1:{rig.port}"
        assert await curl("-x", f"http://{proxy}", url, url) == (0, "got 0got 0")
        assert await curl("-x", f"http://{proxy}", "-0", url) == (0, "got 0")
        assert await curl("-x", f"http://{proxy}", "-p", url) == (0, "got 0")
        assert await curl("-x", f"socks5h://{proxy}", url) == (0, "got 0")
        assert await curl("-x", f"http://{proxy}", "-d", f"@{tmp_path}/body", url) == (0, "got 200000")
        assert await curl("-x", f"http://{proxy}", "-I", url) == (0, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n")
        code, said = await curl("-x", f"http://{proxy}", "-p", "http://other.test/")
        assert (code, "403" in said) == (56, True)


async def test_a_websocket_passes_by_upgrade_and_by_tunnel() -> None:
    async def echo(connection: ServerConnection) -> None:
        async for message in connection:
            await connection.send(message)

    async def try_out(connection: ClientConnection) -> None:
        for message in ("hello", "x" * 100_000, b"\x00\x01"):
            await connection.send(message)
            assert await connection.recv() == message

    async with serve(echo, "127.0.0.1", 0) as server, proxying() as rig:
        port = next(iter(server.sockets)).getsockname()[1]
        url = f"ws://origin.test:{port}/chat"
        async with connect(url, proxy=f"http://127.0.0.1:{rig.port}") as connection:
            await try_out(connection)
        upgrade = get(
            port, "/chat", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        )  # fmt: skip
        async with rig.client() as client:
            await client.say(upgrade)
            head = await client.head()
            assert head.startswith(b"HTTP/1.1 101 ")
            assert b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" in head
            await client.say(b"\x81\x85\x00\x00\x00\x00hello")
            assert await client.reader.readexactly(7) == b"\x81\x05hello"
        asked = [(each.via, each.method) for each in rig.gate.asked]
        assert asked == [("connect", "CONNECT"), ("connect", "GET"), ("http", "GET")]
        assert [(await each.ended()).status for each in rig.gate.passages] == [200, 101, 101]


async def test_a_websocket_to_somebody_else_is_denied() -> None:
    async with proxying() as rig:
        with pytest.raises(ProxyError, match="403"):
            async with connect("ws://other.test/", proxy=f"http://127.0.0.1:{rig.port}"):
                pass
