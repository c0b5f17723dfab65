"""What the store has lost is told to whoever reads over HTTP: nobody takes what is left for all that there was."""

import asyncio
from pathlib import Path
from typing import Any

import httpx

from tests.gateway.live.client import following
from tests.gateway.rig import gateway_in
from tests.gateway.rotten import SANDBOX, spoil


async def page_once_it_is_known(client: httpx.AsyncClient, query: str) -> dict[str, Any]:
    """The auditor reads the whole log a while after its start."""
    while True:
        page: dict[str, Any] = (await client.get(f"/api/v1/sandboxes/{SANDBOX}/events?{query}")).json()
        if page["lacking"]:
            return page
        await asyncio.sleep(0.2)


async def test_an_event_that_rotted_is_told_page_by_page_and_over_a_websocket(tmp_path: Path) -> None:
    lost = await spoil(tmp_path)
    async with gateway_in(tmp_path) as gateway, gateway.client() as client:
        async with asyncio.timeout(60):
            page = await page_once_it_is_known(client, "limit=1000")
        assert page["lacking"] == [{"first_sequence": lost, "last_sequence": lost}]
        assert lost not in [each["sequence"] for each in page["events"]]
        words = [each["event"]["data"]["data"] for each in page["events"] if each["event"]["type"] == "command.output"]
        assert words == ["before\n", "after\n"]
        detail = (await client.get(f"/api/v1/sandboxes/{SANDBOX}")).json()
        assert detail["lacking"] == page["lacking"]
        for view in ("state", "terminal", "network", "files"):
            now = (await client.get(f"/api/v1/sandboxes/{SANDBOX}/{view}")).json()
            assert now["lacking"] == page["lacking"], view
        then = (await client.get(f"/api/v1/sandboxes/{SANDBOX}/state?at={lost - 1}")).json()
        assert then["lacking"] == []
        after = (await client.get(f"/api/v1/sandboxes/{SANDBOX}/events?from={lost + 1}")).json()
        assert after["lacking"] == []
        async with following(gateway, SANDBOX, from_=1) as follower:
            gap = await follower.until("error")
        assert (gap["code"], gap["first_sequence"], gap["last_sequence"]) == ("LOG_GAP", lost, lost)
