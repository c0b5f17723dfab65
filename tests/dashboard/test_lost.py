"""Whoever looks at a sandbox of which something was lost is told so."""

from pathlib import Path

from playwright.async_api import expect

from tests.browser.chromium import chromium, needs_chromium
from tests.dashboard.rig import dashboard_in, seen, shot
from tests.dashboard.tools import needs_node
from tests.gateway.rotten import SANDBOX, spoil
from tests.gateway.test_lost import page_once_it_is_known

pytestmark = [needs_chromium, needs_node]


async def test_the_page_says_which_event_the_log_has_lost(tmp_path: Path) -> None:
    lost = await spoil(tmp_path)
    async with dashboard_in(tmp_path) as gateway, chromium() as browser:
        async with gateway.client() as client:
            await page_once_it_is_known(client, "limit=1000")
        async with seen(browser, gateway, f"#/sandboxes/{SANDBOX}/terminal") as (page, _, __):
            await expect(page.get_by_text(f"The log has lost event {lost}:")).to_be_visible(timeout=30_000)
            await shot(page, "lost-light")
