"""The page under a name, by plain HTTP: what browsers keep for secure places is not there."""

from pathlib import Path

from playwright.async_api import expect

from tests.browser.chromium import chromium, needs_chromium
from tests.dashboard.rig import dashboard_in
from tests.dashboard.script import sandbox_in
from tests.dashboard.tools import needs_node

pytestmark = [needs_chromium, needs_node]
NAME = "cloche.test"
SLOW = 30_000


async def test_a_terminal_takes_what_is_typed_also_where_the_page_came_without_tls(tmp_path: Path) -> None:
    (tmp_path / "cloche.toml").write_text(f'[gateway]\nhosts = ["{NAME}"]\n')
    async with dashboard_in(tmp_path) as gateway, chromium(f"--host-resolver-rules=MAP {NAME} 127.0.0.1") as browser:
        await sandbox_in(gateway, "typed")
        page = await browser.new_page()
        complaints: list[str] = []
        page.on("pageerror", lambda error: complaints.append(str(error)))
        await page.goto(f"http://{NAME}:{gateway.port}/?token={gateway.token()}")
        await page.wait_for_selector("html[data-ready]", state="attached")
        assert await page.evaluate("isSecureContext") is False
        await page.evaluate("place => { location.hash = place }", "#/sandboxes/typed/terminal")
        await page.get_by_label("terminal", exact=True).check(timeout=SLOW)
        await page.get_by_label("Run a command").fill("bash --norc")
        await page.get_by_label("Run a command").press("Enter")
        await expect(page.locator(".glass")).to_contain_text("bash", timeout=SLOW)
        await page.locator(".xterm-helper-textarea").focus()
        await page.keyboard.type("exit 7\n")
        await expect(page.locator(".terminal-foot")).to_contain_text("exit 7", timeout=SLOW)
        assert complaints == []
