"""Tokens become cookies, and cookies are not for other pages."""

import html
import time
from pathlib import Path

import pytest

from contracts.access import Principal, Role, Scope
from infra.tokens.keys import own_key
from infra.tokens.tokens import issue
from services.gateway.starting import START_TOKEN
from tests.gateway.access.rig import door_in, nobody


async def test_a_token_is_exchanged_for_a_cookie_that_says_who_somebody_is(tmp_path: Path) -> None:
    async with door_in(tmp_path) as gateway, nobody(gateway) as browser:
        token = gateway.token(Role.VIEWER, Scope(labels={"team": "a"}), subject="alice")
        begun = await browser.post("/api/v1/session", json={"token": token})
        assert begun.status_code == 201
        flags = {part.strip().lower() for part in begun.headers["set-cookie"].split(";")[1:]}
        assert {"httponly", "samesite=strict", "path=/"} <= flags
        who = (await browser.get("/api/v1/session")).json()
        assert (who["subject"], who["role"]) == ("alice", "viewer")
        assert who["scope"] == {"projects": [], "sandboxes": [], "labels": {"team": "a"}}
        assert who["expires_at"] is not None
        ended = await browser.delete("/api/v1/session", headers={"origin": gateway.url})
        assert ended.status_code == 204
        assert (await browser.get("/api/v1/session")).status_code == 401


async def test_a_session_ends_with_the_token_that_it_was_begun_with(tmp_path: Path) -> None:
    async with door_in(tmp_path) as gateway, nobody(gateway) as browser:
        ends = int(time.time()) + 100
        somebody = Principal(subject="alice", role=Role.VIEWER, expires_at=ends)
        token = issue(own_key(gateway.settings), somebody, now=ends - 200)
        begun = await browser.post("/api/v1/session", json={"token": token})
        assert time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(ends)) == begun.json()["expires_at"]


async def test_a_page_of_elsewhere_can_do_nothing_with_the_cookie(tmp_path: Path) -> None:
    async with door_in(tmp_path) as gateway, nobody(gateway) as browser:
        await browser.post("/api/v1/session", json={"token": gateway.token()})
        for headers in ({"origin": "http://evil.example"}, {"origin": "null"}, {}, {"origin": f"{gateway.url}0"}):
            refused = await browser.post("/api/v1/sandboxes", json={}, headers=headers)
            assert (refused.status_code, refused.json()["code"]) == (403, "FORBIDDEN"), headers
        for site in ("cross-site", "same-site"):
            assert (await browser.get("/api/v1/session", headers={"sec-fetch-site": site})).status_code == 403
        assert (await browser.get("/api/v1/session", headers={"sec-fetch-site": "same-origin"})).status_code == 200
        assert (await browser.delete("/api/v1/session", headers={"origin": gateway.url})).status_code == 204


async def test_a_page_of_elsewhere_cannot_make_somebody_into_somebody_else(tmp_path: Path) -> None:
    async with door_in(tmp_path) as gateway, nobody(gateway) as browser:
        evil = {"origin": "http://evil.example"}
        refused = await browser.post("/api/v1/session", json={"token": gateway.token()}, headers=evil)
        assert refused.status_code == 403
        assert "set-cookie" not in refused.headers


@pytest.mark.parametrize("body", [b"{}", b"[]", b"{", b'{"token": 7}', b'{"token": ""}', b'{"token": "x", "more": 1}'])
async def test_what_is_no_token_is_the_askers_fault(tmp_path: Path, body: bytes) -> None:
    async with door_in(tmp_path) as gateway, nobody(gateway) as browser:
        sent = await browser.post("/api/v1/session", content=body, headers={"content-type": "application/json"})
        assert (sent.status_code, sent.json()["code"]) == (400, "INVALID")


async def test_the_address_with_a_token_leads_in_and_is_forgotten(tmp_path: Path) -> None:
    async with door_in(tmp_path, **{START_TOKEN: "of this start"}) as gateway, nobody(gateway) as browser:
        entered = await browser.get("/", params={"token": "of this start"})
        assert (entered.status_code, entered.headers["location"]) == (303, "/")
        assert entered.headers["referrer-policy"] == "no-referrer"
        assert (await browser.get("/api/v1/session")).json()["subject"] == "local"
        deep = await browser.get("/sandboxes/sb-1", params={"token": "of this start", "at": "7"})
        assert deep.headers["location"] == "/sandboxes/sb-1?at=7"
        refused = await browser.get("/", params={"token": "of another start"})
        assert refused.status_code == 401
        assert "set-cookie" not in refused.headers


async def test_a_session_outlives_a_gateway_and_not_the_start_whose_token_it_was_begun_with(tmp_path: Path) -> None:
    cookie = ""
    for start, expected in (("one", 200), ("one", 200), ("another", 401), ("", 401)):
        values = {START_TOKEN: start} if start else {"CLOCHE_GATEWAY_HOST": "0.0.0.0"}
        async with door_in(tmp_path, **values) as gateway, nobody(gateway) as browser:
            if not cookie:
                entered = await browser.get("/", params={"token": start})
                cookie = entered.headers["set-cookie"].partition(";")[0]
            who = await browser.get("/api/v1/session", headers={"cookie": cookie})
            assert who.status_code == expected, start
            assert (await browser.get("/", params={"token": gateway.token()})).status_code == 303


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_an_address_that_another_page_leads_to_lets_nobody_in_before_they_say_so(
    tmp_path: Path, site: str
) -> None:
    async with door_in(tmp_path) as gateway, nobody(gateway) as browser:
        token = gateway.token(subject="mallory")
        asked = await browser.get("/x", params={"token": token, "at": "7"}, headers={"sec-fetch-site": site})
        assert (asked.status_code, asked.headers["cache-control"]) == (200, "no-store")
        assert "set-cookie" not in asked.headers
        assert "mallory" in asked.text
        address = html.unescape(asked.text.partition('href="')[2].partition('"')[0])
        entered = await browser.get(address, headers={"sec-fetch-site": "same-origin"})
        assert (entered.status_code, entered.headers["location"]) == (303, "/x?at=7")
        assert "set-cookie" in entered.headers


@pytest.mark.parametrize("path", ["//evil.example", "/\\evil.example", "///evil.example/x", "/%2fevil.example"])
async def test_the_address_with_a_token_never_leads_elsewhere(tmp_path: Path, path: str) -> None:
    async with door_in(tmp_path) as gateway, nobody(gateway) as browser:
        entered = await browser.get(f"{gateway.url}{path}?token={gateway.token()}")
        assert entered.status_code in (303, 404)
        place = entered.headers.get("location", "/")
        assert place.startswith("/")
        assert not place.startswith(("//", "/\\"))


async def test_a_start_token_does_not_count_where_others_can_reach_it(tmp_path: Path) -> None:
    values = {START_TOKEN: "of this start", "CLOCHE_GATEWAY_HOST": "0.0.0.0"}
    async with door_in(tmp_path, **values) as gateway, nobody(gateway) as browser:
        assert (await browser.get("/", params={"token": "of this start"})).status_code == 401
        assert (await browser.get("/", params={"token": gateway.token()})).status_code == 303
