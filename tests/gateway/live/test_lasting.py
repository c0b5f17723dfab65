"""Signs of life, and tokens that end."""

import contextlib
import time
from pathlib import Path

import httpx
import pytest
from websockets.exceptions import ConnectionClosedError

from contracts.access import Principal, Role
from infra.tokens.keys import own_key
from infra.tokens.tokens import issue
from tests.gateway.live.client import following
from tests.gateway.rig import Gateway, gateway_in

SETTINGS = "[gateway]\nheartbeat_s = 0.2\n"


def _token(gateway: Gateway, lasts_s: int) -> str:
    now = int(time.time())
    ends = Principal(subject="guest", role=Role.VIEWER, expires_at=now + lasts_s)
    return issue(own_key(gateway.settings), ends, now=now)


async def test_heartbeats_tell_where_the_log_ends(tmp_path: Path) -> None:
    (tmp_path / "cloche.toml").write_text(SETTINGS)
    async with gateway_in(tmp_path) as gateway:
        sandbox = await gateway.cloche.create()
        async with following(gateway, sandbox.id) as follower:
            await sandbox.run("true")
            last = (await follower.until("event", event_type="command.completed"))["sequence"]
            while (beat := await follower.until("heartbeat"))["head_sequence"] < last:
                pass
            assert beat["timestamp"].endswith("Z")


async def test_heartbeats_go_on_while_nats_is_away_and_so_does_the_story_after_it(tmp_path: Path) -> None:
    (tmp_path / "cloche.toml").write_text(SETTINGS)
    async with gateway_in(tmp_path) as gateway:
        sandbox = await gateway.cloche.create()
        async with following(gateway, sandbox.id) as follower:
            gateway.node.kill_server()
            await follower.until("heartbeat")
            await sandbox.run("echo again")
            await follower.until("event", event_type="command.completed")


async def test_a_token_that_expires_ends_the_connection_with_a_code_of_its_own(tmp_path: Path) -> None:
    async with gateway_in(tmp_path) as gateway:
        sandbox = await gateway.cloche.create()
        async with following(gateway, sandbox.id, _token(gateway, 2)) as follower:
            assert (await follower.until("error"))["code"] == "UNAUTHENTICATED"
            with pytest.raises(ConnectionClosedError) as closed:
                await follower.next()
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 4001


async def test_an_event_stream_ends_with_its_token(tmp_path: Path) -> None:
    async with gateway_in(tmp_path) as gateway:
        sandbox = await gateway.cloche.create()
        path = f"/api/v1/sandboxes/{sandbox.id}/events/stream?from=1"
        async with gateway.client(_token(gateway, 4)) as client, client.stream("GET", path) as answer:
            lines = [line async for line in answer.aiter_lines()]
        assert any("sandbox.started" in line for line in lines)


async def test_a_gateway_that_is_told_to_end_lets_everybody_go_and_ends(tmp_path: Path) -> None:
    async with gateway_in(tmp_path) as gateway, gateway.client() as client:
        sandbox = await gateway.cloche.create()
        stream = client.stream("GET", f"/api/v1/sandboxes/{sandbox.id}/events/stream?from=1")
        async with following(gateway, sandbox.id) as follower, stream as answer:
            assert await gateway.service.stop() == 0
            with pytest.raises(ConnectionClosedError) as closed:
                await follower.until("nothing")
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1012
            with contextlib.suppress(httpx.RemoteProtocolError):
                await answer.aread()
        assert gateway.service.said == ["gateway: ready"]
