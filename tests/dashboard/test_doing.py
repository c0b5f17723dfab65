"""What somebody does on a page: asks for a sandbox, answers its questions, goes through time by keys."""

import asyncio
import datetime
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Locator, Page, expect

from services.dashboard.build import HERE
from tests.browser.chromium import chromium, needs_chromium
from tests.browser.session import SANDBOX as RECORDED
from tests.browser.session import START, write_session
from tests.dashboard.rig import dashboard_in, seen
from tests.dashboard.script import sandbox_in
from tests.dashboard.tools import needs_node
from tests.gateway.rig import Gateway

pytestmark = [needs_chromium, needs_node, pytest.mark.asyncio(loop_scope="module")]
SLOW = 30_000
OPENAPI = Path(HERE).parents[1] / "docs" / "openapi.json"
FIELDS = {
    "memory_mb": ("Memory, MiB", 1),
    "cpus": ("CPUs", 1),
    "pids": ("Processes", 1),
    "disk_mb": ("Disk, MiB", 1),
    "timeout_ms": ("Time limit, minutes", 60_000),
}
"""How the dialog calls them, and how many of them are one there."""
MIB = 1 << 20


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Gateway]:
    """One sandbox asks before it reaches anything; of another only the log is left."""
    async with dashboard_in(tmp_path_factory.mktemp("doing")) as gateway:
        async with await gateway.node.server.connect("admin") as bus:
            await write_session(bus)
        await sandbox_in(gateway, "asker", {"network": {"mode": "restricted", "allowed_hosts": [], "unknown": "ask"}})
        yield gateway


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as browser:
        yield browser


async def test_every_field_with_bounds_takes_what_the_specification_takes(browser: Browser, gateway: Gateway) -> None:
    described = json.loads(OPENAPI.read_text())["components"]["schemas"]["Resources"]["properties"]
    assert set(described) == set(FIELDS)
    async with seen(browser, gateway) as (page, complaints, _):
        await page.keyboard.press("n")
        button = page.get_by_role("button", name="Make it")
        for name, (label, unit) in FIELDS.items():
            field = page.get_by_label(label)
            least, most = (described[name][bound] / unit for bound in ("minimum", "maximum"))
            for value, fits in ((least - 0.1, False), (least, True), (most, True), (most + 1, False), (None, True)):
                await field.fill("" if value is None else f"{value:g}" if value % 1 else str(int(value)))
                await expect(field).to_have_attribute("aria-invalid", "false" if fits else "true")
                await expect(button).to_be_enabled(enabled=fits)
            await expect(page.get_by_role("alert")).to_have_count(0)
        assert complaints == []


async def test_a_host_that_a_sandbox_asks_for_is_let_through_or_refused_for_good(
    browser: Browser, gateway: Gateway
) -> None:
    sandbox = await gateway.cloche.sandbox("asker")
    async with seen(browser, gateway, "#/sandboxes/asker/network") as (page, complaints, _):
        for host, answer, kind in (("one.invalid", "Approve", "approved"), ("two.invalid", "Reject", "rejected")):
            asking = asyncio.create_task(sandbox.run(f"curl -sk https://{host}"))
            question = page.get_by_role("article", name=f"reach {host}:443")
            await expect(question).to_be_visible(timeout=SLOW)
            if kind == "rejected":
                await question.get_by_label("and do not ask again").check()
            await question.get_by_role("button", name=answer).click()
            await expect(question).to_have_count(0, timeout=SLOW)
            assert (await asking).exit_code != 0
            (event,) = [each async for each in sandbox.events(types=[f"network.{kind}"])]
            fact = json.loads(event.raw)["data"]
            assert (fact["host"], fact["remember"]) == (host, kind == "rejected")
        # Nobody is asked a second time.
        assert (await sandbox.run("curl -sk https://two.invalid")).exit_code != 0
        await expect(page.get_by_role("region", name="Requests")).to_contain_text("rejected", timeout=SLOW)
        asked = [each async for each in sandbox.events(types=["network.asked"])]
        assert len(asked) == 2
        assert complaints == []


async def test_keys_lead_through_time(browser: Browser, gateway: Gateway) -> None:
    async with seen(browser, gateway, f"#/sandboxes/{RECORDED}/terminal") as (page, complaints, _):
        slider = page.get_by_role("slider", name="Moment")
        live = page.get_by_role("button", name="Live")
        await expect(slider).to_be_enabled(timeout=SLOW)
        last = int(await slider.input_value())
        for key, at in (("[", 1), ("[", 2), ("]", 1), ("{", 101), ("[", 102), ("}", 2), ("}", 0), ("{", 100), ("l", 0)):
            await page.keyboard.press(key)
            await expect(slider).to_have_value(str(max(0, last - at)))
            await expect(live).to_have_attribute("aria-pressed", "false" if at else "true")
        await page.keyboard.press("p")
        await expect(page.get_by_role("button", name="Stop playing")).to_be_visible()
        await expect(live).to_have_attribute("aria-pressed", "false")
        await page.keyboard.press("p")
        await expect(page.get_by_role("button", name="Play")).to_be_visible()
        assert complaints == []


async def test_a_speed_is_typed_key_by_key(browser: Browser, gateway: Gateway) -> None:
    async with seen(browser, gateway, f"#/sandboxes/{RECORDED}/terminal") as (page, complaints, _):
        field = page.get_by_label("Speed")
        await expect(field).to_have_value("4", timeout=SLOW)
        await field.press("ControlOrMeta+a")
        await _typed(field, ("0", "0", False), (".", None, False), ("5", "0.5", True), ("Tab", "0.5", True))
        await field.press("End")
        await _typed(field, *[("Backspace", None, False)] * 2, ("Backspace", "", False), ("Tab", "0.5", True))
        await field.press("ControlOrMeta+a")
        await _typed(field, ("4", "4", True), ("Enter", "4", True), ("Backspace", "", False))
        await _typed(field, ("1", "1", True), ("6", "16", True), ("Escape", "4", True), ("Backspace", "", False))
        await _typed(field, ("Enter", "", False), ("1", "1", True), ("6", "16", True), ("Enter", "16", True))
        await _typed(field, ("Escape", "16", True), ("0", "160", True), ("0", "1600", False), ("Escape", "16", True))
        assert complaints == []


async def _typed(field: Locator, *keys: tuple[str, str | None, bool]) -> None:
    """What stands in the field after each key, and whether it is a speed; None: a browser may say what it likes."""
    for key, text, right in keys:
        await field.press(key)
        await expect(field).to_have_attribute("aria-invalid", "false" if right else "true")
        if text is not None:
            await expect(field).to_have_value(text)


async def test_a_bound_is_typed_key_by_key(browser: Browser, gateway: Gateway) -> None:
    async with seen(browser, gateway) as (page, complaints, _):
        await page.keyboard.press("n")
        field = page.get_by_label("CPUs")
        await _typed(field, ("0", "0", False), (".", "0.", False), ("5", "0.5", True), ("Backspace", "0.", False))
        await _typed(field, ("Backspace", "0", False), ("Backspace", "", True), ("1", "1", True), ("6", "16", True))
        assert complaints == []


async def test_keys_lead_to_where_something_is_typed(browser: Browser, gateway: Gateway) -> None:
    async with seen(browser, gateway) as (page, complaints, _):
        await expect(page.get_by_role("link", name="asker")).to_be_visible(timeout=SLOW)
        await _leads(page, "/", page.get_by_label("Search"))
        await page.get_by_role("link", name="asker").click()
        await expect(page.get_by_role("slider", name="Moment")).to_be_enabled(timeout=SLOW)
        await page.keyboard.press("6")
        await expect(page.get_by_label("Search events")).to_be_visible()
        await _leads(page, "/", page.get_by_label("Search events"))
        # What is typed there is no key.
        await page.keyboard.type("[p2")
        await expect(page.get_by_label("Search events")).to_have_value("[p2")
        await expect(page.get_by_role("button", name="Live")).to_have_attribute("aria-pressed", "true")
        await page.get_by_role("tab", name="Events").focus()
        await _leads(page, "r", page.get_by_label("Run a command"))
        assert complaints == []


async def _leads(page: Page, key: str, place: Locator) -> None:
    # What is shown hears keys only after it was drawn.
    await page.evaluate("() => new Promise(done => requestAnimationFrame(() => setTimeout(done, 0)))")
    await page.keyboard.press(key)
    await expect(place).to_be_focused()
    await expect(place).to_have_value("")


async def test_what_it_used_is_that_of_the_moment_that_is_looked_at(browser: Browser, gateway: Gateway) -> None:
    async with seen(browser, gateway, f"#/sandboxes/{RECORDED}/terminal") as (page, complaints, _):
        samples = [_sample(1, 100), _sample(3600, 300)]
        told = {"sandbox": RECORDED, "health": "healthy", "beat_at": None, "current": samples[-1], "recent": samples}
        await page.route("**/metrics*", lambda route: route.fulfill(json=told))
        await page.keyboard.press("4")
        memory = page.get_by_role("figure", name="Memory")
        slider = page.get_by_role("slider", name="Moment")
        await expect(memory).to_contain_text("300 MiB", timeout=SLOW)
        await expect(slider).to_be_enabled(timeout=SLOW)
        await slider.press("ArrowLeft")
        await expect(memory).to_contain_text("100 MiB")
        await slider.press("Home")
        await expect(page.get_by_text("The figures of that time have expired")).to_be_visible()
        await slider.press("End")
        await expect(memory).to_contain_text("300 MiB")
        assert complaints == []


def _sample(after_s: int, memory_mib: int) -> dict[str, object]:
    """So long after the session began."""
    use = {"cpu_percent": 1, "memory_bytes": memory_mib * MIB, "processes": 1, "disk_bytes": MIB}
    at = START + datetime.timedelta(seconds=after_s)
    return {"at": at.isoformat(), "use": {**use, "network_in_bytes": None, "network_out_bytes": None}}
