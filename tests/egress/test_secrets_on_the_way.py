"""A secret on its way out and back, through the routes of a real specification and store."""

import asyncio
import base64
from pathlib import Path

from contracts.spec import SandboxSpec, Secret
from infra.proxy import Proxy
from infra.proxy.route import verifying
from services.egress.secret_routes import routes_of
from tests.egress.authority import Authority
from tests.egress.vault import store_with
from tests.proxy.gate import FakeGate
from tests.proxy.rig import Rig, listener, origin

PASSWORD = "Pass-Word-0123456789"
BASIC = base64.b64encode(f"robot:{PASSWORD}".encode()).decode()


async def test_no_part_can_be_asked_for_and_a_password_that_comes_back_in_clear_is_masked(tmp_path: Path) -> None:
    heads: list[bytes] = []
    body = f"hello robot, your password is {PASSWORD}".encode()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\nAccept-Ranges: bytes\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        await writer.drain()

    authority = Authority(tmp_path / "authority")
    listening = listener()
    gate = FakeGate({"origin.test": ("127.0.0.1",)})
    async with origin(handle, authority.server_context("origin.test")) as port, Proxy(gate) as proxy:
        secret = Secret(name="api", host="origin.test", port=port, template="Basic {secret}")
        routes = routes_of(SandboxSpec(secrets=(secret,)), store_with(tmp_path, api=BASIC))
        rig = Rig(proxy, gate, listening.getsockname()[1])
        await proxy.serve_routes(listening, routes, verifying(authority.certificate))
        said = await rig.said(
            b"GET /api/me HTTP/1.1\r\nHost: x\r\nRange: bytes=30-39\r\nIf-Range: x\r\nConnection: close\r\n\r\n"
        )
    assert f"Authorization: Basic {BASIC}\r\n".encode() in heads[0]
    assert b"range" not in heads[0].lower()
    assert b"accept-ranges" not in said.lower()
    assert said.endswith(b"hello robot, your password is " + b"*" * len(PASSWORD))
