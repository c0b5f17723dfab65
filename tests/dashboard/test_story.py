"""The whole story in a real browser: spawn, run, watch, approve, interrupt, see a diff, go back, lose the gateway."""

import re
import time
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from contracts.access import Role
from tests.browser.chromium import chromium, needs_chromium
from tests.dashboard.rig import dashboard_in, seen, shot
from tests.dashboard.script import begin, sandbox_in
from tests.dashboard.tools import needs_node
from tests.gateway.rig import Gateway

pytestmark = [needs_chromium, needs_node, pytest.mark.asyncio(loop_scope="module")]
SLOW = 30_000
MUCH = 4_000_000
"""Numbers that a command prints: 30 MB of them."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Gateway]:
    async with dashboard_in(tmp_path_factory.mktemp("dashboard")) as gateway:
        yield gateway


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as browser:
        yield browser


async def terminal(page: Page) -> str:
    rows = await page.locator(".glass .xterm-rows > div").all_inner_texts()
    return "\n".join(row.rstrip() for row in rows).strip()


async def run_line(page: Page, line: str) -> None:
    box = page.get_by_label("Run a command")
    await box.fill(line)
    await box.press("Enter")


async def test_nobody_sees_anything_without_a_session_and_is_told_how_to_get_in(
    browser: Browser, gateway: Gateway
) -> None:
    context = await browser.new_context()
    page = await context.new_page()
    await page.goto(gateway.url)
    await expect(page.get_by_role("heading", name="You are not signed in")).to_be_visible()
    await expect(page.get_by_text("./cloche open")).to_be_visible()
    await page.get_by_label("Token").fill("not a token")
    await page.get_by_role("button", name="Come in").click()
    await expect(page.get_by_role("alert")).to_be_visible()
    await page.get_by_label("Token").fill(gateway.token())
    await page.get_by_role("button", name="Come in").click()
    await expect(page.get_by_role("heading", name="Sandboxes")).to_be_visible()
    await context.close()


async def test_a_sandbox_is_spawned_within_its_bounds_and_runs_a_command(browser: Browser, gateway: Gateway) -> None:
    async with seen(browser, gateway) as (page, complaints, asked):
        await expect(page.get_by_role("heading", name="Nothing grows here yet")).to_be_visible()
        await page.keyboard.press("n")
        await expect(page.get_by_label("Name")).to_be_focused()
        await page.keyboard.type("first")
        await page.get_by_label("Memory, MiB").fill("100")
        await expect(page.get_by_text("between 512 and 32768")).to_be_visible()
        await expect(page.get_by_role("button", name="Make it")).to_be_disabled()
        await page.get_by_label("Memory, MiB").fill("1024")
        await page.get_by_label("Labels").fill("team=garden")
        await page.get_by_role("button", name="Make it").click()
        await expect(page.get_by_role("heading", name="first")).to_be_visible(timeout=SLOW)
        await run_line(page, "echo $((6 * 7)); seq 3")
        await expect(page.locator(".glass")).to_contain_text("42", timeout=SLOW)
        assert await terminal(page) == "42\n1\n2\n3"
        await expect(page.locator(".terminal-foot")).to_contain_text("exit 0")
        await page.get_by_role("link", name="All sandboxes").click()
        row = page.get_by_role("link", name="first")
        await expect(row).to_contain_text("running")
        await expect(row).to_contain_text("team=garden")
        await page.get_by_label("Search").fill("team=desert")
        await expect(page.get_by_role("heading", name="None of them is like that")).to_be_visible()
        assert complaints == []
        assert [each for each in asked if f"127.0.0.1:{gateway.port}" not in each] == []
        assert [each for each in asked[1:] if "token" in each] == []


async def test_a_terminal_takes_what_is_typed(browser: Browser, gateway: Gateway) -> None:
    await sandbox_in(gateway, "typed")
    async with seen(browser, gateway, "#/sandboxes/typed/terminal") as (page, complaints, _):
        await page.get_by_label("terminal", exact=True).check()
        await run_line(page, "bash --norc")
        await expect(page.locator(".glass")).to_contain_text("bash", timeout=SLOW)
        await page.locator(".xterm-helper-textarea").focus()
        await page.keyboard.type("tput cols; tty; exit 7\n")
        await expect(page.locator(".terminal-foot")).to_contain_text("exit 7", timeout=SLOW)
        shown = await terminal(page)
        assert "/dev/pts/" in shown
        # Keys that mean something elsewhere went to the program.
        await expect(page.get_by_role("dialog")).to_have_count(0)
        assert complaints == []


async def test_a_command_that_prints_much_is_shown_to_its_end_and_not_kept_by_the_page(
    browser: Browser, gateway: Gateway
) -> None:
    await sandbox_in(gateway, "chatty")
    async with seen(browser, gateway, "#/sandboxes/chatty/terminal") as (page, complaints, _):
        await run_line(page, "echo before")
        await expect(page.locator(".glass")).to_contain_text("before", timeout=SLOW)
        before = await _kept(page)
        await run_line(page, f"seq {MUCH}; echo the end")
        await expect(page.locator(".glass")).to_contain_text("the end", timeout=5 * SLOW)
        *numbers, end = (await terminal(page)).splitlines()
        assert numbers == [str(number) for number in range(MUCH - len(numbers) + 1, MUCH + 1)]
        assert (len(numbers) > 10, end) == (True, "the end")
        assert await _kept(page) - before < MUCH
        assert complaints == []


async def _kept(page: Page) -> int:
    """Bytes of memory that the page holds on to."""
    session = await page.context.new_cdp_session(page)
    await session.send("HeapProfiler.collectGarbage")
    use = await session.send("Runtime.getHeapUsage")
    return int(use["usedSize"])


async def test_an_agent_is_watched_asked_about_interrupted_and_looked_back_upon(
    browser: Browser, gateway: Gateway
) -> None:
    await sandbox_in(gateway, "greeter", {"labels": {"team": "garden"}})
    await begin(gateway, "greeter")
    async with seen(browser, gateway, "#/sandboxes/greeter/terminal") as watched:
        page = watched.page
        await _watched(page)
        await _approved(page)
        await _interrupted(page)
        await _looked_at_a_diff(page)
        await _went_back(page)
        await _played(page)
        assert watched.complaints == []


async def _watched(page: Page) -> None:
    happened = page.get_by_role("region", name="What happened")
    await expect(happened).to_contain_text("I correct the spelling", timeout=SLOW)
    await expect(page.locator(".glass")).to_contain_text("4 passed", timeout=SLOW)
    question = page.get_by_role("article", name="publish git push origin main")
    await expect(question).to_contain_text("May I publish it?", timeout=SLOW)
    await expect(page.locator(".diff-line.added").filter(has_text="Hello").first).to_be_visible(timeout=SLOW)
    await shot(page, "watched-light")


async def _approved(page: Page) -> None:
    await page.keyboard.press("a")
    await expect(page.get_by_role("button", name="Approve")).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("region", name="What happened")).to_contain_text("Published.", timeout=SLOW)
    await expect(page.get_by_role("group", name="Waiting for leave")).to_have_count(0)


async def _interrupted(page: Page) -> None:
    await page.get_by_label("Write to the agent").fill("One more thing")
    await page.get_by_label("Write to the agent").press("Enter")
    happened = page.get_by_role("region", name="What happened")
    await expect(happened).to_contain_text("You said: One more thing", timeout=SLOW)
    await expect(page.locator(".glass")).to_contain_text("waiting", timeout=SLOW)
    await page.get_by_role("button", name="Interrupt").click()
    await expect(happened).to_contain_text("interrupted: asked", timeout=SLOW)
    await expect(happened).not_to_contain_text("This is never said.")
    await page.get_by_role("button", name="Dismiss").click()


async def _looked_at_a_diff(page: Page) -> None:
    await page.get_by_role("tab", name="Files").click()
    await page.get_by_role("treeitem", name="greet.py", exact=False).filter(has_not_text="test_").click()
    await expect(page.get_by_role("region", name="Content")).to_contain_text("Hello, {name}!")
    await page.get_by_role("button", name="Changes").click()
    changes = page.get_by_role("region", name="Changes")
    await expect(changes.locator(".removed")).to_contain_text("Helo")
    await expect(changes.locator(".added").first).to_contain_text("Hello")
    await shot(page, "diff-light")
    await page.get_by_role("button", name="Content").click()


async def _went_back(page: Page) -> None:
    """By the slider: the files, the conversation and the terminal are those of then."""
    slider = page.get_by_role("slider", name="Moment")
    last = int(await slider.input_value())
    while "Helo" not in await page.get_by_role("region", name="Content").inner_text():
        at = int(await slider.input_value())
        assert at > 0, "the misspelling was never seen"
        await slider.press("ArrowLeft")
        await expect(slider).to_have_value(str(at - 1))
        await expect(page.locator(".tree-foot")).to_contain_text("at sequence")
    happened = page.get_by_role("region", name="What happened")
    await expect(happened).not_to_contain_text("Published.")
    await expect(page.get_by_label("Write to the agent")).to_have_count(0)
    assert int(await slider.input_value()) < last
    await expect(page.locator(".sandbox-head")).to_contain_text(re.compile(r"made \d+ s earlier"))
    await shot(page, "past-light")
    await page.keyboard.press("1")
    await expect(page.locator(".glass")).to_contain_text("AssertionError: Helo, moon!")
    await expect(page.locator(".glass")).not_to_contain_text("waiting")


async def _played(page: Page) -> None:
    """From the same moment to now, at two speeds."""
    then = await page.evaluate("location.hash")
    took = []
    for speed in ("3.5", "800"):
        await page.evaluate("then => { location.hash = then }", then)
        await expect(page.locator(".glass")).to_contain_text("AssertionError: Helo, moon!")
        await page.get_by_label("Speed").fill("0")
        await expect(page.get_by_label("Speed")).to_have_attribute("aria-invalid", "true")
        await page.get_by_label("Speed").fill(speed)
        begun = time.monotonic()
        await page.get_by_role("button", name="Play").click()
        await expect(page.get_by_role("button", name="Live")).to_have_attribute("aria-pressed", "true", timeout=SLOW)
        took.append(time.monotonic() - begun)
    assert took[0] > 2 * took[1], took
    await expect(page.get_by_role("region", name="What happened")).to_contain_text("interrupted: asked")


async def test_a_killed_gateway_is_told_and_the_page_goes_on_where_it_was(browser: Browser, gateway: Gateway) -> None:
    await sandbox_in(gateway, "steady")
    async with seen(browser, gateway, "#/sandboxes/steady/terminal") as (page, _, __):
        await run_line(page, "for i in $(seq 1 400); do echo line $i; sleep 0.02; done")
        await expect(page.locator(".glass")).to_contain_text("line 5", timeout=SLOW)
        await gateway.service.kill()
        await expect(page.get_by_text("The gateway is away")).to_be_visible(timeout=SLOW)
        await shot(page, "away-light")
        # What is opened meanwhile is there as soon as it can be.
        await page.get_by_role("tab", name="Files").click()
        await expect(page.get_by_role("heading", name="The files could not be read")).to_be_visible()
        await page.get_by_role("tab", name="Terminal").click()
        await expect(page.locator(".terminal-foot")).to_contain_text("The gateway does not answer")
        await gateway.service.start()
        await expect(page.get_by_text("The gateway is away")).to_have_count(0, timeout=SLOW)
        await expect(page.locator(".terminal-foot")).to_contain_text("exit 0", timeout=SLOW)
        await expect(page.locator(".glass")).to_contain_text("line 400", timeout=SLOW)
        assert await _scrolled(page) == [f"line {number}" for number in range(1, 401)]


async def _scrolled(page: Page) -> list[str]:
    """Every line of the terminal, from the top: nothing is missing, nothing is there twice."""
    lines: list[str] = []
    await page.locator(".glass .xterm-helper-textarea").focus()
    for _ in range(40):
        await page.keyboard.press("Shift+PageUp")
    await expect(page.locator(".glass .xterm-rows > div").first).to_have_text("line 1")
    while "line 400" not in lines:
        shown = (await terminal(page)).splitlines()
        lines += [each for each in shown if each not in lines]
        await page.keyboard.press("Shift+PageDown")
        await page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return lines


async def test_a_viewer_may_look_and_do_nothing(browser: Browser, gateway: Gateway) -> None:
    await sandbox_in(gateway, "looked-at")
    async with seen(browser, gateway, "#/sandboxes/looked-at/terminal", role=Role.VIEWER) as (page, complaints, _):
        await expect(page.get_by_label("Run a command")).to_be_disabled()
        await expect(page.get_by_label("Write to the agent")).to_be_disabled()
        await expect(page.get_by_role("button", name="Pause", exact=True)).to_be_disabled()
        assert complaints == []


async def test_what_is_not_there_is_said_with_a_way_out(browser: Browser, gateway: Gateway) -> None:
    async with seen(browser, gateway, "#/sandboxes/nobody") as (page, _, __):
        await expect(page.get_by_role("heading", name="There is no sandbox nobody")).to_be_visible()
        await page.get_by_role("link", name="All sandboxes").click()
        await expect(page.get_by_role("heading", name="Sandboxes")).to_be_visible()


async def test_keys_are_explained(browser: Browser, gateway: Gateway) -> None:
    async with seen(browser, gateway) as (page, _, __):
        await page.keyboard.press("?")
        await expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
        await page.keyboard.press("Escape")
        await expect(page.get_by_role("dialog")).to_have_count(0)
