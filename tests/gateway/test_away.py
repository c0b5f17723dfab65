"""Nobody waits for ever for a bus that does not answer."""

import asyncio
from pathlib import Path

from tests.gateway.access.rig import door_in

PLACE = "/api/v1/sandboxes"


async def test_whoever_asks_while_nats_is_away_is_told_so(tmp_path: Path) -> None:
    async with door_in(tmp_path) as gateway, gateway.client() as client:
        await gateway.node.server.aclose()
        answers = await asyncio.gather(
            client.post(PLACE, json={}),
            client.get(f"{PLACE}/sb"),
            client.post(f"{PLACE}/sb/commands", json={"argv": ["true"]}),
        )
        told = [(each.status_code, each.json()["code"], each.json()["retryable"]) for each in answers]
        assert told == [(503, "UNAVAILABLE", True)] * 3


async def test_an_order_that_cannot_be_stored_is_answered(tmp_path: Path) -> None:
    async with door_in(tmp_path) as gateway, gateway.client() as client:
        async with await gateway.node.server.connect("admin") as admin:
            await admin.api("STREAM.DELETE.CLOCHE_COMMANDS")
        asked = await client.post(PLACE, json={})
        assert (asked.status_code, asked.json()["code"]) == (503, "UNAVAILABLE")
        assert "same key" in asked.json()["detail"]
