"""Who is let in, which pages and names, how often, and what every answer has."""

import asyncio
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
import websockets
from websockets.exceptions import InvalidStatus

from contracts.access import Principal, Role
from contracts.errors import Unauthenticated
from contracts.http.problems import MEDIA_TYPE
from infra.observing.exposition import CONTENT_TYPE_LATEST
from infra.settings import Settings
from infra.tokens.keys import own_key
from infra.tokens.tokens import LEEWAY_S, issue
from services.gateway.access.door import Door
from services.gateway.access.gate import Gate
from services.gateway.access.limits import Limits
from services.gateway.access.origins import Origins
from tests.gateway.access.rig import door_in, nobody
from tests.gateway.rig import Gateway

ALWAYS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
OF_PAGES = (
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self' 'unsafe-inline'",
    "img-src 'self' data: blob:",
    "font-src 'self' data:",
    "connect-src 'self'",
    "manifest-src 'self'",
    "worker-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
)
OF_DATA = ("default-src 'none'", "sandbox", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'")


async def test_every_answer_has_the_headers_that_keep_browsers_honest(tmp_path: Path) -> None:
    async with door_in(tmp_path) as gateway, gateway.client() as client, nobody(gateway) as stranger:
        for path in ("/", "/healthz", "/no/such.file", "/api/v1/session", "/api/v1/no/such/thing", "/metrics", "/ws/x"):
            for asker in (client, stranger):
                answer = await asker.get(path)
                assert ALWAYS.items() <= dict(answer.headers).items(), path
                wanted = OF_DATA if path.startswith("/api/") else OF_PAGES
                assert answer.headers["content-security-policy"] == "; ".join(wanted), path
                assert "server" not in answer.headers
        assert (await stranger.post("/healthz")).headers["x-frame-options"] == "DENY"


async def test_without_a_token_that_counts_nothing_private_is_answered(tmp_path: Path) -> None:
    async with door_in(tmp_path) as gateway, nobody(gateway) as stranger:
        for path in (
            "/api/v1/session",
            "/api/v1/sandboxes",
            "/metrics",
            "/api/v1/no/such",
            "/api",
            "/metrics/",
            "//api/v1/sandboxes",
            "///metrics",
            "/%2Fapi//v1/session/",
        ):
            answer = await stranger.get(f"{gateway.url}{path}")
            assert (answer.status_code, answer.json()["code"]) == (401, "UNAUTHENTICATED")
            assert answer.headers["www-authenticate"].startswith("Bearer")
        for given in (f"Bearer {gateway.token()}x", "Bearer", f"Basic {gateway.token()}", gateway.token()):
            answer = await stranger.get("/api/v1/session", headers={"authorization": given})
            assert answer.status_code == 401, given
        in_address = await stranger.get("/api/v1/session", params={"token": gateway.token()})
        assert in_address.status_code == 401


async def test_a_name_that_is_not_ours_is_refused_whatever_address_dns_gives_it(tmp_path: Path) -> None:
    async with door_in(tmp_path, 'hosts = ["cloche.example.com"]') as gateway, gateway.client() as client:
        for host in (
            "evil.example",
            "evil.example:7300",
            "localhost.evil.example",
            "localhost@evil.example",
            "a b",
            "[",
        ):
            answer = await client.get("/api/v1/session", headers={"host": host})
            assert (answer.status_code, answer.json()["code"]) == (403, "FORBIDDEN"), host
        for host in ("localhost", "LOCALHOST:1", "127.0.0.1:7", "[::1]:7300", "cloche.example.com"):
            answer = await client.get("/api/v1/session", headers={"host": host})
            assert answer.status_code == 200, host
        twice = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nhost: evil.example\r\nconnection: close\r\n\r\n"
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        writer.write(twice)
        assert b" 403 " in await reader.readline()
        writer.close()
        await writer.wait_closed()


async def test_whoever_asks_too_often_is_told_when_to_come_again_and_others_are_not_held_up(tmp_path: Path) -> None:
    async with door_in(tmp_path, "requests_per_s = 0.1\nburst = 3") as gateway:
        async with gateway.client(gateway.token(subject="eager")) as eager:
            answers = [await eager.get("/api/v1/session") for _ in range(5)]
        assert [answer.status_code for answer in answers] == [200, 200, 200, 429, 429]
        assert answers[-1].json()["code"] == "TOO_MANY_REQUESTS"
        assert 1 <= int(answers[-1].headers["retry-after"]) <= 10
        async with gateway.client(gateway.token(subject="calm")) as calm:
            assert (await calm.get("/api/v1/session")).status_code == 200
        async with nobody(gateway) as stranger:
            assert [(await stranger.get("/healthz")).status_code for _ in range(4)] == [200, 200, 200, 429]


async def test_what_a_page_of_elsewhere_asks_uses_up_nothing_of_somebodys_own(tmp_path: Path) -> None:
    async with door_in(tmp_path, "requests_per_s = 0.1\nburst = 2") as gateway, nobody(gateway) as browser:
        cookie = {"cookie": await _cookie(browser, gateway.token())}
        for _ in range(5):
            theirs = await browser.get("/api/v1/session", headers={"sec-fetch-site": "same-site", **cookie})
            assert theirs.status_code == 403
        assert (await browser.get("/api/v1/session", headers=cookie)).status_code == 200


async def test_guessing_tokens_ends_in_429_and_shuts_nobody_else_out(tmp_path: Path) -> None:
    async with door_in(tmp_path) as gateway, nobody(gateway) as stranger, gateway.client() as client:
        guesses = [
            (await stranger.get("/api/v1/session", headers={"authorization": f"Bearer {n}"})).status_code
            for n in range(40)
        ]
        assert guesses[:20] == [401] * 20
        assert 429 in guesses[20:]
        assert (await client.get("/api/v1/session")).status_code == 200


async def test_pages_of_origins_that_the_settings_name_may_use_it_with_a_token(tmp_path: Path) -> None:
    async with door_in(tmp_path, 'origins = ["https://tools.example.com"]') as gateway, nobody(gateway) as browser:
        asking = {"access-control-request-method": "POST", "access-control-request-headers": "authorization"}
        ours = await browser.options("/api/v1/sandboxes", headers={"origin": "https://tools.example.com", **asking})
        assert ours.status_code == 200
        assert ours.headers["access-control-allow-origin"] == "https://tools.example.com"
        assert "access-control-allow-credentials" not in ours.headers
        theirs = await browser.options("/api/v1/sandboxes", headers={"origin": "https://evil.example", **asking})
        assert "access-control-allow-origin" not in theirs.headers


async def test_a_reverse_proxy_is_believed_where_the_settings_name_it(tmp_path: Path) -> None:
    limits = "requests_per_s = 0.1\nburst = 1\n"
    secured = {"x-forwarded-proto": "https", "x-forwarded-for": "192.0.2.1"}
    async with door_in(tmp_path / "one", f'{limits}proxies = ["127.0.0.1"]') as gateway, nobody(gateway) as proxy:
        begun = await proxy.post("/api/v1/session", json={"token": gateway.token()}, headers=secured)
        assert "; Secure" in begun.headers["set-cookie"]
        for address, status in (("192.0.2.1", 429), ("192.0.2.2", 200), ("2001:db8::1", 200), ("2001:db8::2", 429)):
            assert (await proxy.get("/healthz", headers={"x-forwarded-for": address})).status_code == status, address
    async with door_in(tmp_path / "two", limits) as gateway, nobody(gateway) as stranger:
        begun = await stranger.post("/api/v1/session", json={"token": gateway.token()}, headers=secured)
        assert "Secure" not in begun.headers["set-cookie"]
        assert (await stranger.get("/healthz", headers={"x-forwarded-for": "192.0.2.2"})).status_code == 429


async def _refusal(gateway: Gateway, query: str = "", path: str = "/ws/events", **headers: str) -> int:
    """The status of a handshake; 0 where the door lets it through, whatever is behind it."""
    address = f"ws://127.0.0.1:{gateway.port}{path}{query}"
    try:
        async with websockets.connect(address, additional_headers=headers, proxy=None):
            return 0
    except InvalidStatus as refused:
        is_ours = refused.response.headers.get("content-type") == MEDIA_TYPE
        return refused.response.status_code if is_ours else 0


async def test_a_websocket_needs_a_token_and_no_page_of_elsewhere_has_one(tmp_path: Path) -> None:
    async with door_in(tmp_path) as gateway, nobody(gateway) as browser:
        token = gateway.token(Role.VIEWER)
        own, other = gateway.url, "http://evil.example"
        assert await _refusal(gateway) == 401
        assert await _refusal(gateway, "?token=x") == 401
        assert await _refusal(gateway, f"?token={token}", origin=other) == 403
        assert await _refusal(gateway, f"?token={token}", origin="null") == 403
        assert await _refusal(gateway, f"?token={token}", origin=f"{own}.evil.example") == 403
        assert await _refusal(gateway, f"?token={token}&from=1", origin=own) == 0
        assert await _refusal(gateway, authorization=f"Bearer {token}") == 0
        cookie = await _cookie(browser, token)
        assert await _refusal(gateway, cookie=cookie, origin=own) == 0
        assert await _refusal(gateway, cookie=cookie, origin=other) == 403
        assert await _refusal(gateway, cookie=cookie) == 403
        for path in ("/ws", "/ws/nothing", "/", "/api/v1/sandboxes"):
            assert await _refusal(gateway, path=path) == 401
            assert await _refusal(gateway, path=path, authorization=f"Bearer {token}") == 404
        await gateway.service.stop()
        # To refuse somebody is no error of ours.
        assert not [line for line in gateway.service.said if "ERROR" in line]


async def _cookie(browser: httpx.AsyncClient, token: str) -> str:
    begun = await browser.post("/api/v1/session", json={"token": token})
    return begun.headers["set-cookie"].partition(";")[0]


async def test_a_trace_that_somebody_is_in_goes_on_and_another_begins_where_it_is_none(tmp_path: Path) -> None:
    async with door_in(tmp_path) as gateway, nobody(gateway) as client:
        trace = "4bf92f3577b34da6a3ce929d0e0e4736"
        given = f"00-{trace}-00f067aa0ba902b7-01"
        told = (await client.get("/healthz", headers={"traceparent": given})).headers["traceparent"]
        assert (told[:36], told[-3:]) == (f"00-{trace}-", "-01")
        assert told != given
        for wrong in ("00-x-y-01", f"00-{'0' * 32}-00f067aa0ba902b7-01", f"{given}\tx", ""):
            other = (await client.get("/healthz", headers={"traceparent": wrong})).headers["traceparent"]
            assert other[3:35] not in (trace, "0" * 32)


async def test_it_lives_without_nats_and_is_not_ready(tmp_path: Path) -> None:
    async with door_in(tmp_path) as gateway, nobody(gateway) as client:
        assert (await client.get("/readyz")).json() == {"status": "ok"}
        await gateway.node.server.aclose()
        async with asyncio.timeout(30):
            while (ready := await client.get("/readyz")).status_code == 200:
                await asyncio.sleep(0.02)
        assert (ready.status_code, ready.json()["code"], ready.json()["retryable"]) == (503, "UNAVAILABLE", True)
        assert (await client.get("/healthz")).status_code == 200


async def test_figures_are_for_admins(tmp_path: Path) -> None:
    async with door_in(tmp_path) as gateway:
        async with gateway.client(gateway.token(Role.OPERATOR)) as client:
            assert (await client.get("/metrics")).status_code == 403
        async with gateway.client(gateway.token(Role.ADMIN)) as client:
            await client.get("/api/v1/no/such/thing")
            figures = await client.get("/metrics")
            assert figures.headers["content-type"] == CONTENT_TYPE_LATEST
            text = figures.text
            assert 'cloche_gateway_requests_total{method="GET",route="/metrics",status="403"} 1.0' in text
            assert 'cloche_denials_total{code="FORBIDDEN",service="gateway"} 1.0' in text
            assert 'cloche_bus_connected{service="gateway"} 1.0' in text
            assert "/no/such" not in text


async def test_whoever_is_kept_out_is_counted_also_from_what_is_no_request(tmp_path: Path) -> None:
    upgrade = {
        "connection": "Upgrade", "upgrade": "websocket", "sec-websocket-version": "13",
        "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
    }  # fmt: skip
    async with door_in(tmp_path) as gateway, nobody(gateway) as stranger:
        assert (await stranger.get("/api/v1/session")).status_code == 401
        assert (await stranger.get("/ws/sandboxes/sb", headers=upgrade)).status_code == 401
        async with gateway.client(gateway.token(Role.ADMIN)) as client:
            text = (await client.get("/metrics")).text
        assert 'cloche_denials_total{code="UNAUTHENTICATED",service="gateway"} 2.0' in text


async def test_what_takes_long_ends_with_the_token_that_it_was_begun_with(tmp_path: Path) -> None:
    async with door_in(tmp_path) as gateway:
        now = int(time.time())
        # Over, but for the leeway that clocks are given.
        late = Principal(subject="late", role=Role.OPERATOR, expires_at=now - LEEWAY_S + 3)
        async with gateway.client(issue(own_key(gateway.settings), late, now=now - 100)) as client:
            # Nobody is there to make one.
            cut = await client.post("/api/v1/sandboxes?wait=100", json={})
            assert (cut.status_code, cut.json()["code"]) == (401, "UNAUTHENTICATED")


async def test_an_answer_that_its_token_did_not_last_for_does_not_look_whole(tmp_path: Path) -> None:
    async def endless(_: Any, __: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"a part", "more_body": True})
        await asyncio.Event().wait()

    settings = Settings(data=tmp_path)
    now = int(time.time())
    late = Principal(subject="late", role=Role.VIEWER, expires_at=now - LEEWAY_S + 1)
    token = issue(own_key(settings), late, now=now - 100)
    door = Door(endless, Gate(settings), Origins(settings.gateway), Limits(settings.gateway))
    told: list[Any] = []

    async def send(message: Any) -> None:
        told.append(message)

    headers = [(b"host", b"localhost"), (b"authorization", f"Bearer {token}".encode())]
    scope: Any = {"type": "http", "method": "GET", "path": "/api/v1/sandboxes/sb/export", "headers": headers}
    with pytest.raises(Unauthenticated):
        await door(scope, None, send)  # type: ignore[arg-type]
    assert [message.get("more_body") for message in told] == [None, True]


async def test_no_token_is_in_the_log_however_much_is_logged(tmp_path: Path) -> None:
    async with door_in(tmp_path, CLOCHE_LOG_LEVEL="DEBUG") as gateway, nobody(gateway) as browser:
        token = gateway.token()
        cookie = await _cookie(browser, token)
        await browser.get("/", params={"token": token})
        await _refusal(gateway, f"?token={token}")
        await _refusal(gateway, f"?token={token}", origin="http://evil.example")
        await _refusal(gateway, cookie=cookie, origin=gateway.url)
        await gateway.service.stop()
        said = "\n".join(gateway.service.said)
        assert token not in said
        assert cookie.partition("=")[2] not in said
