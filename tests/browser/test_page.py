"""The exported page in a real browser: it plays, it finds, it shows, and nothing in it gets out of its place."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from infra.export.page.page import page as make_page
from infra.log.live import LiveView
from tests.browser.chromium import chromium, needs_chromium, opened
from tests.browser.session import SANDBOX, write_session
from tests.bus.servers import nats_in

pytestmark = [needs_chromium, pytest.mark.asyncio(loop_scope="module")]
SHOTS = os.environ.get("CLOCHE_SCREENSHOTS")
"""Where pictures of what was seen are left, for whoever wants to look."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def exported(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Path]:
    place = tmp_path_factory.mktemp("page")
    async with nats_in(place / "nats") as server:
        bus = await server.connect("admin")
        await write_session(bus)
        out = place / "session.html"
        with out.open("wb") as file:
            async for piece in make_page(LiveView(bus), SANDBOX):
                file.write(piece)
        yield out


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as browser:
        yield browser


async def shot(page: Page, name: str) -> None:
    if SHOTS:
        await page.screenshot(path=Path(SHOTS) / f"{name}.png")


async def screen(page: Page) -> str:
    return await page.locator("#screen").inner_text()


async def seek(page: Page, tenth: int) -> None:
    await page.locator("#stage").press(str(tenth))


async def test_the_page_asks_for_nothing_and_runs_nothing_that_it_was_not_made_with(
    browser: Browser, exported: Path
) -> None:
    async with opened(browser, exported.as_uri()) as (page, complaints, asked):
        await seek(page, 0)
        for _ in range(await page.evaluate("Number(document.getElementById('count').textContent.split(' ')[2])")):
            await page.locator("body").press("]")
        assert "stopped" in await page.locator("#detail h2").inner_text()
        assert await page.evaluate("window.taken") is None
        assert (complaints, asked) == ([], [exported.as_uri()])
        assert await page.locator("img, iframe, link, object, embed").count() == 0
        await shot(page, "light")


async def test_the_terminal_shows_any_moment_and_plays_from_there(browser: Browser, exported: Path) -> None:
    async with opened(browser, exported.as_uri()) as (page, complaints, _):
        await page.locator("#search").fill("vi greeting.txt")
        await page.locator(".item").first.click()
        await page.locator("#search").fill("")
        assert "[Process exited with code 2" in await screen(page)
        await page.locator("#speed").select_option("0.5")
        await page.locator("#play").click()
        await expect(page.locator("#screen")).to_contain_text("greeting.txt  1,1")
        await page.locator("#speed").select_option("16")
        await expect(page.locator("#play")).to_have_text("Play", timeout=30_000)
        assert "greeting.txt  1,1" not in await screen(page)
        assert complaints == []


async def test_a_search_finds_words_of_output_messages_and_files(browser: Browser, exported: Path) -> None:
    async with opened(browser, exported.as_uri()) as (page, _, __):
        for words, title in (("building object_37.o", "$ make"), ("misspelled", "message"), ("+world", "modified")):
            await page.locator("#search").fill(words)
            assert title in await page.locator(".item").first.inner_text()
        await page.locator("#search").fill("nobody ever said this")
        assert await page.locator(".item").count() == 0


async def test_a_search_looks_at_what_was_said_and_not_at_how_it_is_kept(browser: Browser, exported: Path) -> None:
    async with opened(browser, exported.as_uri()) as (page, _, __):
        for words, count in (("[32m", 0), ('"text"', 0), ("false}", 0), ('" onmouseover="window.taken', 4)):
            await page.locator("#search").fill(words)
            assert (await page.locator("#count").inner_text()).startswith(f"{count} of "), words


async def test_what_was_searched_for_is_marked_where_it_stands(browser: Browser, exported: Path) -> None:
    async with opened(browser, exported.as_uri()) as (page, _, __):
        await page.locator("#search").fill("object_37.o")
        await page.locator(".item").first.click()
        found = "[...CSS.highlights.get('found')].map(range => range.toString())"
        assert await page.evaluate(found) == ["object_37.o"]
        await page.locator("#search").fill("")
        assert await page.evaluate(found) == []


async def test_keys_go_through_every_event_also_through_those_of_one_moment(browser: Browser, exported: Path) -> None:
    async with opened(browser, exported.as_uri()) as (page, _, __):
        chosen = page.locator("#detail p")
        total = int((await page.locator("#count").inner_text()).split()[-1])
        seen = [await chosen.inner_text()]
        await page.locator("#list").focus()
        for _ in range(total - 1):
            await page.keyboard.press("ArrowDown")
            seen.append(await chosen.inner_text())
        assert len(set(seen)) == total
        assert await page.evaluate("document.activeElement.id") == "list"
        assert await page.locator(".item.chosen").is_visible()
        await page.keyboard.press("Home")
        assert await chosen.inner_text() == seen[0]
        await page.locator("#search").fill("greeting.txt")
        matching = int((await page.locator("#count").inner_text()).split()[0])
        await page.locator("#search").press("ArrowDown")
        for _ in range(total):
            await page.keyboard.press("]")
        assert "vi greeting.txt" in await page.locator("#detail h2").inner_text()
        assert 1 < matching < total


async def test_a_button_is_pressed_with_the_space_bar(browser: Browser, exported: Path) -> None:
    async with opened(browser, exported.as_uri()) as (page, _, __):
        agent = page.locator("#tools button", has_text="agent")
        await agent.press(" ")
        assert await agent.get_attribute("aria-pressed") == "false"
        await expect(page.locator("#play")).to_have_text("Play")
        await page.locator("#list").press(" ")
        await expect(page.locator("#play")).to_have_text("Pause")
        await page.locator("#play").press(" ")
        await expect(page.locator("#play")).to_have_text("Play")


async def test_wide_characters_keep_their_columns(browser: Browser, exported: Path) -> None:
    async with opened(browser, exported.as_uri()) as (page, _, __):
        await page.locator("#search").fill("columns")
        await page.locator(".item").last.click()
        await page.locator("#search").fill("")
        await page.locator("#list").press("]")
        bars = "[...document.querySelectorAll('#screen div')].filter(row => row.textContent.includes('│'))"
        ends = await page.evaluate(f"{bars}.map(row => row.lastChild.getBoundingClientRect().right)")
        assert len(ends) == 3
        assert max(ends) - min(ends) < 1
        await shot(page, "wide")


async def test_a_diff_is_shown_line_by_line(browser: Browser, exported: Path) -> None:
    async with opened(browser, exported.as_uri(), dark=True) as (page, _, __):
        await page.locator("#search").fill("/workspace/greeting.txt")
        await page.locator(".item").first.click()
        assert await page.locator("#detail .added").all_inner_texts() == ["+world"]
        assert await page.locator("#detail .removed").all_inner_texts() == ["-wrold"]
        await page.locator("#search").fill("")
        await seek(page, 3)
        await shot(page, "dark")


async def test_a_phone_sees_it_without_scrolling_sideways(browser: Browser, exported: Path) -> None:
    async with opened(browser, exported.as_uri(), width=390, height=844) as (page, _, __):
        wider = await page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wider <= 0
        inside = await page.evaluate("document.getElementById('list').clientHeight / innerHeight")
        assert 0.3 < inside < 0.7, "the list has a height of its own, however long it is"
        await seek(page, 3)
        await shot(page, "phone")
