"""How it looks, and to whom: light, dark, a phone, somebody who cannot see it; and pictures of it all."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect

from tests.browser.chromium import chromium, needs_chromium
from tests.dashboard.rig import dashboard_in, faults, seen, shot, sideways
from tests.dashboard.script import begin, sandbox_in
from tests.dashboard.tools import needs_node
from tests.gateway.rig import Gateway

pytestmark = [needs_chromium, needs_node, pytest.mark.asyncio(loop_scope="module")]
SLOW = 30_000
KINDS = pytest.mark.parametrize(("dark", "phone"), [(False, False), (True, False), (False, True), (True, True)])


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Gateway]:
    """Where an agent has worked, and waits for leave."""
    async with dashboard_in(tmp_path_factory.mktemp("looks")) as gateway:
        await sandbox_in(gateway, "greeter", {"labels": {"team": "garden"}})
        await sandbox_in(gateway, "quiet")
        await sandbox_in(gateway, "over")
        await (await gateway.cloche.sandbox("over")).stop()
        denied = await (await gateway.cloche.sandbox("greeter")).run("curl -s https://example.com; exit 3")
        assert denied.exit_code == 3
        await begin(gateway, "greeter")
        yield gateway


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as browser:
        yield browser


def named(what: str, *, dark: bool, phone: bool) -> str:
    return "-".join([what, *(["phone"] if phone else []), "dark" if dark else "light"])


@KINDS
async def test_the_list_can_be_seen_and_heard(browser: Browser, gateway: Gateway, dark: bool, phone: bool) -> None:
    async with seen(browser, gateway, dark=dark, phone=phone) as (page, complaints, _):
        await expect(page.get_by_role("link", name="greeter")).to_contain_text("asks for leave", timeout=SLOW)
        await expect(page.get_by_role("link", name="greeter")).to_contain_text("MiB", timeout=SLOW)
        assert await faults(page) == []
        assert await sideways(page) <= 0
        await shot(page, named("list", dark=dark, phone=phone))
        await page.get_by_role("button", name="New sandbox").click()
        await page.get_by_label("Network").select_option("restricted")
        assert await faults(page) == []
        assert await sideways(page) <= 0
        await shot(page, named("spawn", dark=dark, phone=phone))
        assert complaints == []


@KINDS
async def test_every_dialog_can_be_seen_and_heard(browser: Browser, gateway: Gateway, dark: bool, phone: bool) -> None:
    async with seen(browser, gateway, "#/sandboxes/quiet/agent", dark=dark, phone=phone) as (page, complaints, _):
        for opener, title in (
            ("Start an agent", "Start an agent"),
            ("Fork", "Fork"),
            ("Remove", "Remove quiet?"),
            ("Keys and help", "Keys"),
        ):
            await page.get_by_role("button", name=opener).click(timeout=SLOW)
            await expect(page.get_by_role("dialog", name=title)).to_be_visible()
            assert await faults(page) == [], title
            assert await sideways(page) <= 0, title
            await page.keyboard.press("Escape")
            await expect(page.get_by_role("dialog")).to_have_count(0)
            await expect(page.get_by_role("button", name=opener)).to_be_focused()
        assert complaints == []


@KINDS
async def test_every_view_of_a_sandbox_can_be_seen_and_heard(
    browser: Browser,
    gateway: Gateway,
    dark: bool,
    phone: bool,
) -> None:
    async with seen(browser, gateway, "#/sandboxes/greeter/agent", dark=dark, phone=phone) as (page, complaints, _):
        await expect(page.get_by_role("button", name="Approve")).to_be_visible(timeout=SLOW)
        await shot(page, named("sandbox", dark=dark, phone=phone))
        await expect(page.get_by_role("button", name="Remove")).to_be_in_viewport(ratio=1)
        assert await faults(page) == []
        views = page.get_by_role("tablist", name="Views")
        if phone:
            await expect(views).to_have_attribute("data-more-behind", "")
            await expect(page.locator(".sandbox-head .facts")).to_contain_text("4,898 tokens")
            await expect(page.locator(".sandbox-head .facts")).to_contain_text("$0.03")
        for view in ("Terminal", "Files", "Network", "Use", "Findings", "Events"):
            await page.get_by_role("tab", name=view).click()
            await expect(page.get_by_role("tab", name=view)).to_have_attribute("aria-selected", "true")
            if view == "Files":
                await page.get_by_role("treeitem", name="greet.py").first.click()
                await page.get_by_role("button", name="Changes").click()
                await expect(page.get_by_role("region", name="Changes")).to_be_visible()
            if view == "Network":
                await expect(page.get_by_role("region", name="Requests")).to_contain_text("example.com:443")
            if view == "Use":
                await expect(page.get_by_role("figure").first).to_be_visible(timeout=SLOW)
            if view == "Events":
                await expect(page.get_by_role("tab", name=view)).to_be_in_viewport(ratio=1)
                await expect(views).not_to_have_attribute("data-more-behind", "")
            assert await faults(page) == [], view
            assert await sideways(page) <= 0, view
            await shot(page, named(view.lower(), dark=dark, phone=phone))
        assert complaints == []


async def test_the_past_and_the_first_visit_can_be_seen_and_heard(browser: Browser, gateway: Gateway) -> None:
    async with seen(browser, gateway, "#/sandboxes/greeter/terminal") as (page, _, __):
        slider = page.get_by_role("slider", name="Moment")
        await expect(slider).to_be_enabled(timeout=SLOW)
        for _step in range(5):
            await slider.press("PageDown")
        await expect(page.get_by_text("You look at the past")).to_be_visible()
        assert await faults(page) == []
    context = await browser.new_context()
    page = await context.new_page()
    await page.goto(gateway.url)
    await expect(page.get_by_role("heading", name="You are not signed in")).to_be_visible()
    assert await faults(page) == []
    await context.close()
