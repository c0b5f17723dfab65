"""`cloche token` makes tokens that count, of either algorithm, and `cloche up` tells where."""

import json
from pathlib import Path

import httpx
import jwt
import pytest

from services.cli.gateway_note import find_gateway
from tests.cli.shell import Shell, cleaned, up_in

SCOPED = ("token", "--role", "viewer", "--name", "alice", "--label", "team=search", "--json")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir(mode=0o700)
    (tmp_path / "secret").write_bytes(b"thirty-two bytes that nobody else has")
    (tmp_path / "data" / "cloche.toml").write_text(f"[gateway]\nport = 0\nshared_secret = '{tmp_path}/secret'\n")
    return tmp_path / "data"


def made(cloche: Shell, *more: str) -> str:
    said = cloche(*SCOPED, *more)
    assert said.code == 0, said.err
    token: str = json.loads(said.out)["token"]
    return token


def test_tokens_of_both_algorithms_count_and_say_what_was_asked_for(data: Path) -> None:
    with up_in(data) as cloche:
        note = find_gateway(cloche.data)
        assert note is not None
        for more, algorithm in (((), "EdDSA"), (("--shared",), "HS256")):
            token = made(cloche, *more)
            assert jwt.get_unverified_header(token)["alg"] == algorithm
            bearer = {"authorization": f"Bearer {token}"}
            who = httpx.get(f"{note.address}/api/v1/session", headers=bearer, timeout=60).json()
            assert (who["subject"], who["role"]) == ("alice", "viewer")
            assert who["scope"] == {"projects": [], "sandboxes": [], "labels": {"team": "search"}}
            refused = httpx.post(f"{note.address}/api/v1/sandboxes", headers=bearer, json={}, timeout=60)
            assert (refused.status_code, refused.json()["code"]) == (403, "FORBIDDEN")


def test_up_in_the_foreground_tells_the_address_too(tmp_path: Path) -> None:
    with cleaned(tmp_path / "data", CLOCHE_GATEWAY_PORT="0") as cloche, cloche.begun("up") as line:
        assert line.stderr is not None
        while not (said := line.stderr.readline()).startswith(b"dashboard: "):
            assert said, "it ended"
        note = find_gateway(cloche.data)
        assert note is not None
        assert said.decode().strip() == f"dashboard: {note.entrance}"
