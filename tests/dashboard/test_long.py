"""A session of a hundred thousand events, and one in which everything is hostile."""

import datetime
import re
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect

from contracts.events import agent, command, sandbox
from contracts.message import Fact
from contracts.spec import Isolation, SandboxSpec
from infra.bus.connection import Bus
from infra.bus.out_stream import OutStream
from infra.journal import Journal
from tests.browser.chromium import chromium, needs_chromium
from tests.browser.session import SANDBOX as HOSTILE
from tests.browser.session import write_session
from tests.dashboard.rig import dashboard_in, seen, shot
from tests.dashboard.tools import needs_node
from tests.gateway.rig import Gateway

pytestmark = [needs_chromium, needs_node, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(900)]
LONG = "sb-long"
OUTPUTS = 100_000
STORY = "sb-story"
PARTS = 4000
CLOSED_UP = """() => new Promise(done => {
  const look = () => {
    const rows = [...document.querySelectorAll(".story .windowed-row")].map(row => row.getBoundingClientRect());
    const apart = rows.slice(1).map((row, index) => Math.abs(row.top - rows[index].bottom));
    if (rows.length > 5 && Math.max(...apart) <= 1) done(rows.length);
    else requestAnimationFrame(look);
  };
  look();
})"""
"""Once each row begins where the one before it ends: how many there are."""
JUMPED = """list => new Promise(done => {
  const above = () => list.getBoundingClientRect().top;
  const rows = () => [...list.querySelectorAll(".windowed-row")];
  let [times, most] = [0, 0];
  const step = () => {
    const row = rows().find(each => each.getBoundingClientRect().top >= above());
    const before = row.getBoundingClientRect().top;
    list.scrollTop -= 150;
    requestAnimationFrame(() => requestAnimationFrame(() => requestAnimationFrame(() => {
      most = Math.max(most, Math.abs(row.getBoundingClientRect().top - before - 150));
      if ((times += 1) < 20) step(); else done(most);
    })));
  };
  step();
})"""
"""By how much what is read moved otherwise than by the hand that scrolls upwards."""
SLOW = 120_000
START = datetime.datetime(2026, 3, 14, 9, 0, tzinfo=datetime.UTC)


def session() -> Iterator[Fact]:
    yield sandbox.SandboxCreating(spec=SandboxSpec(), isolation=Isolation.LOCAL, node="local")
    yield sandbox.SandboxCreated(node="local", isolation=Isolation.LOCAL, workspace="/workspace")
    yield sandbox.SandboxStarted(instance="life-1")
    yield agent.AgentStarted(run="r-1", runtime="script", prompt="Count to a hundred thousand")
    yield command.CommandStarted(exec="e-count", argv=("seq", str(OUTPUTS)), cwd="/workspace")
    offset = 0
    for number in range(1, OUTPUTS + 1):
        line = f"{number}\n"
        yield command.CommandOutput(
            exec="e-count",
            stream=command.Stream.STDOUT,
            offset=offset,
            size=len(line),
            data=line,
            encoding="utf-8",  # type: ignore[arg-type]
        )
        offset += len(line)
    totals = command.Totals(stdout=offset)
    yield command.CommandCompleted(exec="e-count", exit=command.Exit(code=0), duration_ms=5000, totals=totals)
    yield agent.AgentMessage(run="r-1", text="That was all of them.")


def story() -> Iterator[Fact]:
    """Of which everything is told."""
    yield sandbox.SandboxCreating(spec=SandboxSpec(), isolation=Isolation.LOCAL, node="local")
    yield sandbox.SandboxCreated(node="local", isolation=Isolation.LOCAL, workspace="/workspace")
    yield sandbox.SandboxStarted(instance="life-1")
    yield agent.AgentStarted(run="r-1", runtime="script", prompt="Work for a long time")
    yield sandbox.SandboxStopped(reason="asked")
    for number in range(PARTS):
        yield agent.AgentThinking(run="r-1", text=f"I think about part {number}. " * (1 + number % 7))
        yield agent.AgentMessage(
            run="r-1", text=f"Now part {number}. " + "It takes some words to say. " * (number % 11)
        )
        yield agent.AgentToolUse(run="r-1", call=f"c-{number}", tool="edit", input={"path": f"part-{number}.py"})
    yield agent.AgentMessage(run="r-1", text="And then?")
    yield agent.AgentMessage(run="r-1", text="That was the last part.")


async def write_long(bus: Bus, name: str, facts: Iterator[Fact]) -> None:
    journal = Journal(bus, service="test", node="local")
    async with OutStream(bus) as out:
        for number, fact in enumerate(facts):
            time = START + datetime.timedelta(milliseconds=number)
            written = journal.write(name, fact, id=f"{name}-{number}", time=time)
            await out.send(written.subject, written.payload, written.id)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Gateway]:
    """Of the services only those that a page asks: the others would read along."""
    async with dashboard_in(tmp_path_factory.mktemp("long"), services=("replay",)) as gateway:
        async with await gateway.node.server.connect("admin") as bus:
            await write_session(bus)
            await write_long(bus, LONG, session())
            await write_long(bus, STORY, story())
        yield gateway


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as browser:
        yield browser


async def test_a_hundred_thousand_events_are_readable(browser: Browser, gateway: Gateway) -> None:
    async with seen(browser, gateway, f"#/sandboxes/{LONG}/events") as (page, complaints, _):
        await expect(page.get_by_role("heading", name=LONG)).to_be_visible(timeout=SLOW)
        # The end is there at once; what was before it fills up behind.
        await expect(page.get_by_role("region", name="What happened")).to_contain_text("That was all of them.")
        await expect(page.get_by_role("tab", name="Events")).to_contain_text(re.compile(r"100,0\d\d"), timeout=SLOW)
        await expect(page.get_by_role("slider", name="Moment")).to_be_enabled(timeout=SLOW)
        await expect(page.get_by_role("region", name="What happened")).to_contain_text("Count to a hundred thousand")
        assert await page.locator(".event-row").count() < 100
        events = page.get_by_role("region", name="Events")
        await events.evaluate("list => { list.scrollTop = 0 }")
        await expect(page.locator(".event-row").first).to_contain_text("sandbox.creating")
        await page.get_by_label("Search events").fill("stdout 6 B 77777")
        await expect(page.locator(".event-row")).to_have_count(1)
        await shot(page, "events-many-light")
        await page.locator(".event-row").click()
        await page.get_by_role("button", name="Look at this moment").click()
        await page.get_by_role("tab", name="Terminal").click()
        await expect(page.locator(".glass")).to_contain_text("77777", timeout=SLOW)
        await expect(page.locator(".glass")).not_to_contain_text("77778")
        assert complaints == []


async def test_a_long_story_is_read_from_its_end_to_its_beginning(browser: Browser, gateway: Gateway) -> None:
    async with seen(browser, gateway, f"#/sandboxes/{STORY}/events") as (page, complaints, _):
        await expect(page.get_by_role("slider", name="Moment")).to_be_enabled(timeout=SLOW)
        story = page.get_by_role("region", name="What happened")
        await expect(story).to_contain_text("That was the last part.")
        assert await story.evaluate(JUMPED) <= 1
        for part in (0.75, 0.5, 0.25):
            await story.evaluate("(list, part) => { list.scrollTop = list.scrollHeight * part }", part)
            assert await page.evaluate(CLOSED_UP) < 60
        await story.evaluate("list => { list.scrollTop = 0 }")
        await expect(story).to_contain_text("Work for a long time")
        await page.get_by_label("Search events").fill(f"now part {PARTS - 1}.")
        await expect(page.locator(".event-row")).to_have_count(1)
        await page.get_by_label("Kind").select_option("file")
        await expect(page.get_by_role("heading", name="None is like that")).to_be_visible()
        assert complaints == []


async def test_the_newest_terminal_is_there_though_its_past_is_not(browser: Browser, gateway: Gateway) -> None:
    async with seen(browser, gateway) as (page, _, __):
        await page.route(re.compile(r"/events\?from="), lambda route: route.abort())
        await page.evaluate("place => { location.hash = place }", f"#/sandboxes/{LONG}/terminal")
        await expect(page.locator(".glass")).to_contain_text("100000", timeout=SLOW)
        await expect(page.get_by_role("slider", name="Moment")).to_be_disabled()


async def test_nothing_that_a_sandbox_says_gets_out_of_its_place(browser: Browser, gateway: Gateway) -> None:
    async with seen(browser, gateway, f"#/sandboxes/{HOSTILE}/terminal") as (page, complaints, asked):
        await expect(page.get_by_role("heading", name=HOSTILE)).to_be_visible()
        slider = page.get_by_role("slider", name="Moment")
        await expect(slider).to_be_enabled(timeout=SLOW)
        for view in ("Terminal", "Files", "Network", "Use", "Findings", "Events"):
            await page.get_by_role("tab", name=view).click()
            await slider.press("End")
            for _ in range(12):
                await slider.press("PageDown")
            await slider.press("Home")
            await slider.press("End")
        await page.get_by_role("tab", name="Terminal").click()
        for tab in await page.locator(".command-tab").all():
            await tab.click()
        assert await page.evaluate("window.taken") is None
        assert await page.title() == f"{HOSTILE} · Cloche"
        assert await page.locator("img, iframe, object, embed, #app script").count() == 0
        assert [each for each in complaints if "404" not in each] == []
        assert [each for each in asked if f"127.0.0.1:{gateway.port}" not in each] == []
