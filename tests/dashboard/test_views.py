"""Every part of a page shows what it is for, now and at any moment."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Locator, Page, Route, expect

from contracts.access import Role, Scope
from contracts.errors import Failure
from contracts.events import sandbox
from contracts.spec import Isolation, SandboxSpec
from infra.bus.connection import Bus
from infra.journal import Journal
from tests.browser.chromium import chromium, needs_chromium
from tests.browser.session import SANDBOX as RECORDED
from tests.browser.session import write_session
from tests.dashboard.rig import dashboard_in, seen, shot, sideways
from tests.dashboard.script import begin, sandbox_in
from tests.dashboard.tools import needs_node
from tests.gateway.rig import Gateway

pytestmark = [needs_chromium, needs_node, pytest.mark.asyncio(loop_scope="module")]
SLOW = 30_000
UNLUCKY = f"unlucky-{'and-long-' * 6}-1"
REASON = "the image could not be had: " + "the registry says much that fits on no line, " * 6


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Gateway]:
    """An agent waits for leave in one sandbox; one is quiet, one is stopped, and of one only the log is left."""
    data = tmp_path_factory.mktemp("views")
    (data / "cloche.toml").write_text("[intervals]\nhealth_s = 1\n")
    async with dashboard_in(data) as gateway:
        async with await gateway.node.server.connect("admin") as bus:
            await write_session(bus)
            await write_failure(bus)
        await sandbox_in(gateway, "greeter", {"labels": {"team": "garden"}, "task_id": "t-1"})
        await sandbox_in(gateway, "quiet")
        await sandbox_in(gateway, "over")
        await (await gateway.cloche.sandbox("over")).stop()
        await begin(gateway, "greeter")
        yield gateway


async def write_failure(bus: Bus) -> None:
    journal = Journal(bus, service="test", node="local")
    begun = sandbox.SandboxCreating(spec=SandboxSpec(), isolation=Isolation.DOCKER, node="local")
    failed = sandbox.SandboxFailed(failure=Failure(code="SANDBOX_CREATION_FAILED", message=REASON))
    for number, fact in enumerate((begun, failed)):
        await journal.append(journal.write(UNLUCKY, fact, id=f"{UNLUCKY}-{number}"))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as browser:
        yield browser


def row(page: Page, name: str) -> Locator:
    return page.get_by_role("link", name=name)


async def test_the_list_tells_status_health_use_agent_and_cost_and_is_filtered(
    browser: Browser, gateway: Gateway
) -> None:
    async with seen(browser, gateway) as (page, complaints, _):
        for words in (
            "running",
            "healthy",
            " %",
            "MiB",
            "script",
            "Make the greeting right",
            "asks for leave",
            "$0.03",
        ):
            await expect(row(page, "greeter")).to_contain_text(words, timeout=SLOW)
        await expect(page.locator(".list-row").first).to_contain_text("greeter")
        for status, shown, hidden in (
            ("stopped", "over", "greeter"),
            ("asking", "greeter", "quiet"),
            ("all", "quiet", ""),
        ):
            await page.get_by_label("Status").select_option(status)
            await expect(row(page, shown)).to_be_visible()
            if hidden:
                await expect(row(page, hidden)).to_have_count(0)
        for words, count in (("team=garden", 1), ("t-1 greet", 1), ("desert", 0)):
            await page.get_by_label("Search").fill(words)
            await expect(page.locator(".list-row")).to_have_count(count)
        assert complaints == []


async def test_a_name_that_is_taken_is_told_in_the_dialog(browser: Browser, gateway: Gateway) -> None:
    async with seen(browser, gateway) as (page, _, __):
        await page.keyboard.press("n")
        await page.get_by_label("Name").fill("quiet")
        await page.get_by_role("button", name="Make it").click()
        await expect(page.get_by_role("alert")).to_contain_text("there is a sandbox 'quiet' already")
        await expect(page.get_by_role("button", name="Make it")).to_be_enabled()


async def test_whoever_works_for_several_projects_says_for_which_a_sandbox_is(
    browser: Browser, gateway: Gateway
) -> None:
    async with seen(browser, gateway, scope=Scope(projects=("orchard", "meadow"))) as (page, complaints, _):
        await expect(page.get_by_role("heading", name="Nothing grows here yet")).to_be_visible(timeout=SLOW)
        await page.keyboard.press("n")
        await page.get_by_label("Name").fill("of-a-project")
        await page.get_by_role("button", name="Make it").click()
        await expect(page.get_by_label("Project")).to_be_focused()
        await page.get_by_label("Project").select_option("meadow")
        await page.get_by_role("button", name="Make it").click()
        await expect(page.get_by_role("heading", name="of-a-project")).to_be_visible(timeout=SLOW)
        assert complaints == []
    made = await gateway.cloche.sandbox("of-a-project")
    assert made.state.spec.project_id == "meadow"
    await made.remove()


@pytest.mark.parametrize("phone", [False, True], ids=["desk", "phone"])
async def test_a_long_name_and_a_long_reason_stay_in_their_place(
    browser: Browser, gateway: Gateway, phone: bool
) -> None:
    async with seen(browser, gateway, phone=phone) as (page, complaints, _):
        await expect(row(page, UNLUCKY)).to_be_visible(timeout=SLOW)
        assert await sideways(page) <= 0
        await row(page, UNLUCKY).click()
        await expect(page.get_by_role("heading", name=UNLUCKY)).to_be_visible()
        await expect(page.locator(".sandbox-head")).to_contain_text(REASON.strip())
        await expect(page.get_by_role("heading", name="Nothing was run here")).to_be_visible()
        await expect(page.get_by_text("Type a command")).to_have_count(0)
        assert await sideways(page) <= 0
        await shot(page, f"failed-{'phone-' if phone else ''}light")
        assert complaints == []


async def test_a_viewer_is_not_offered_a_sandbox(browser: Browser, gateway: Gateway) -> None:
    async with seen(browser, gateway, role=Role.VIEWER) as (page, _, __):
        await expect(page.get_by_role("button", name="New sandbox")).to_be_disabled()
        await page.keyboard.press("n")
        await page.keyboard.press("?")
        await expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
        await expect(page.get_by_role("dialog")).to_have_count(1)


async def test_a_dialog_goes_by_a_press_beside_it_and_not_by_a_selection_that_ends_there(
    browser: Browser, gateway: Gateway
) -> None:
    async with seen(browser, gateway) as (page, _, __):
        await page.keyboard.press("n")
        await page.get_by_label("Name").fill("typed")
        box = await page.get_by_label("Name").bounding_box()
        assert box is not None
        await page.mouse.move(box["x"] + 60, box["y"] + 10)
        await page.mouse.down()
        await page.mouse.move(20, 400, steps=4)
        await page.mouse.up()
        await expect(page.get_by_label("Name")).to_have_value("typed")
        await page.mouse.click(20, 400)
        await expect(page.get_by_role("dialog")).to_have_count(0)


async def test_each_command_has_a_terminal_of_its_own(browser: Browser, gateway: Gateway) -> None:
    async with seen(browser, gateway, "#/sandboxes/quiet/terminal") as (page, complaints, _):
        for line, shown in (("echo first $((20 + 1))", "first 21"), ("echo second $((20 + 2))", "second 22")):
            await page.get_by_label("Run a command").fill(line)
            await page.get_by_label("Run a command").press("Enter")
            await expect(page.locator(".glass")).to_contain_text(shown, timeout=SLOW)
        commands = page.get_by_role("group", name="Commands")
        await commands.get_by_role("button", name="echo first").click()
        await expect(page.locator(".glass")).to_contain_text("first 21", timeout=SLOW)
        await expect(page.locator(".glass")).not_to_contain_text("second 22")
        assert complaints == []


async def test_a_terminal_lets_go_of_whoever_has_only_a_keyboard(browser: Browser, gateway: Gateway) -> None:
    async with seen(browser, gateway, "#/sandboxes/quiet/terminal") as (page, _, __):
        inside = page.locator(".glass .xterm-helper-textarea")
        for line, keys in (("echo shown", ["Tab"]), ("cat", ["Escape", "Tab"])):
            if line == "cat":
                await page.get_by_label("terminal", exact=True).check()
            await page.get_by_label("Run a command").fill(line)
            await page.get_by_label("Run a command").press("Enter")
            await expect(page.locator(".command-tab[aria-pressed=true]")).to_contain_text(line, timeout=SLOW)
            await expect(page.locator(".terminal-foot")).to_contain_text("exit 0" if line != "cat" else "Esc, then Tab")
            await inside.focus()
            for key in keys:
                await expect(inside).to_be_focused()
                await page.keyboard.press(key)
            await expect(inside).not_to_be_focused()
        await inside.focus()
        await page.keyboard.press("Tab")
        # Without Escape it is the program's.
        await expect(inside).to_be_focused()


async def test_a_story_has_its_thoughts_and_tools_folded_its_diffs_coloured_and_its_question_on_top(
    browser: Browser, gateway: Gateway
) -> None:
    async with seen(browser, gateway, "#/sandboxes/greeter/agent") as (page, complaints, _):
        story = page.get_by_role("region", name="What happened")
        question = page.get_by_role("group", name="Waiting for leave")
        await expect(question).to_contain_text("git push origin main", timeout=SLOW)
        assert await top_of(question) < await top_of(story)
        # A tool that was rejected may be asked for again.
        await expect(question.get_by_label("if approved, do not ask again")).to_be_enabled()
        await expect(page.locator(".diff-line.added").filter(has_text="Hello").first).to_be_visible()
        kinds = [page.locator(f".diff-line.{kind}").first for kind in ("added", "removed", "context")]
        assert len({await ground_of(line) for line in kinds}) == 3
        await story.evaluate("list => { list.scrollTop = 0 }")
        await unfolded(story, "thinking", "I correct it, and run the tests again.")
        await unfolded(story, "python3 -B test_greet.py", "AssertionError: Helo, moon!")
        assert complaints == []


async def top_of(shown: Locator) -> float:
    box = await shown.bounding_box()
    assert box is not None
    return box["y"]


async def ground_of(line: Locator) -> str:
    colour: str = await line.evaluate("line => getComputedStyle(line).backgroundColor")
    return colour


async def unfolded(story: Locator, name: str, inside: str) -> None:
    fold = story.locator(".fold").filter(has=story.page.get_by_role("button", name=name)).first
    await expect(fold.locator(".fold-head")).to_have_attribute("aria-expanded", "false")
    await expect(fold.locator(".fold-body")).to_have_count(0)
    await fold.locator(".fold-head").click()
    await expect(fold.locator(".fold-body")).to_contain_text(inside)


async def test_a_question_is_rejected_and_an_agent_paused_and_resumed(browser: Browser, gateway: Gateway) -> None:
    async with seen(browser, gateway, "#/sandboxes/greeter/agent") as (page, complaints, _):
        await page.get_by_role("button", name="Reject").click(timeout=SLOW)
        story = page.get_by_role("region", name="What happened")
        await expect(story).to_contain_text("Then I leave it here.", timeout=SLOW)
        await expect(page.get_by_role("group", name="Waiting for leave")).to_have_count(0)
        await page.get_by_role("button", name="Pause the agent").click()
        await page.get_by_role("button", name="Resume the agent").click(timeout=SLOW)
        await expect(page.get_by_role("button", name="Pause the agent")).to_be_visible(timeout=SLOW)
        assert complaints == []


async def test_a_files_content_and_changes_are_those_of_any_moment(browser: Browser, gateway: Gateway) -> None:
    async with seen(browser, gateway, "#/sandboxes/greeter/files") as (page, complaints, _):
        await page.get_by_role("treeitem", name="greet.py").filter(has_not_text="test_").click(timeout=SLOW)
        await page.get_by_role("button", name="Changes 2").click(timeout=SLOW)
        await page.get_by_role("button", name="look at that moment").last.click()
        await expect(page.get_by_role("button", name="Changes 1")).to_be_visible(timeout=SLOW)
        changes = page.get_by_role("region", name="Changes")
        await expect(changes).to_contain_text("It is new")
        await expect(changes.locator(".diff-line")).to_have_count(0)
        await page.get_by_role("button", name="Content").click()
        await expect(page.get_by_role("region", name="Content")).to_contain_text("Helo, {name}!")
        assert complaints == []


async def test_files_are_walked_by_keys(browser: Browser, gateway: Gateway) -> None:
    async with seen(browser, gateway, "#/sandboxes/greeter/terminal") as (page, _, __):
        await page.get_by_role("tab", name="Terminal").focus(timeout=SLOW)
        await page.keyboard.press("End")
        await expect(page.get_by_role("tab", name="Events")).to_be_focused()
        await page.keyboard.press("Home")
        await page.keyboard.press("ArrowRight")
        await expect(page.get_by_role("tab", name="Files")).to_be_focused()
        await page.get_by_role("tree", name="Files").focus()
        await page.keyboard.press("Home")
        active = page.locator(".tree-row.active")
        for key, name in (("ArrowRight", "plan.md"), ("ArrowLeft", "notes"), ("ArrowLeft", "notes")):
            await page.keyboard.press(key)
            await expect(active).to_contain_text(name)
        await expect(page.get_by_role("treeitem", name="plan.md")).to_have_count(0)
        for key in ("ArrowRight", "ArrowRight", "Enter"):
            await page.keyboard.press(key)
        await expect(page.get_by_role("region", name="Content")).to_contain_text("correct the spelling")


async def test_no_file_is_shown_under_the_name_of_another(browser: Browser, gateway: Gateway) -> None:
    async with seen(browser, gateway, "#/sandboxes/greeter/files") as (page, _, __):
        held: list[Route] = []
        await page.route("**/files/greet.py*", lambda route: held.append(route))
        await page.get_by_role("treeitem", name="plan.md").click(timeout=SLOW)
        await expect(page.get_by_role("region", name="Content")).to_contain_text("correct the spelling")
        await page.get_by_role("treeitem", name="greet.py").filter(has_not_text="test_").click()
        await expect(page.locator(".file-side")).to_contain_text("greet.py")
        await expect(page.locator(".file-side")).not_to_contain_text("correct the spelling")
        await expect(page.get_by_role("heading", name="Looking…")).to_be_visible()
        await held[0].continue_()
        await expect(page.get_by_role("region", name="Content")).to_contain_text("def greet")


async def test_where_there_is_room_for_one_thing_keys_lead_to_the_agent(browser: Browser, gateway: Gateway) -> None:
    async with seen(browser, gateway, "#/sandboxes/greeter/files", phone=True) as (page, _, __):
        await expect(page.get_by_role("tree", name="Files")).to_be_visible(timeout=SLOW)
        await page.keyboard.press("c")
        await expect(page.get_by_label("Write to the agent")).to_be_focused()


async def test_what_it_uses_is_drawn_beside_its_limits(browser: Browser, gateway: Gateway) -> None:
    async with seen(browser, gateway, "#/sandboxes/greeter/use") as (page, complaints, _):
        for name in ("CPU", "Memory", "Processes", "Disk"):
            figure = page.get_by_role("figure", name=name)
            await expect(figure).to_contain_text("of ", timeout=SLOW)
            await expect(figure.locator("canvas")).to_be_visible()
        assert complaints == []


async def test_requests_and_findings_are_those_of_any_moment(browser: Browser, gateway: Gateway) -> None:
    async with seen(browser, gateway, f"#/sandboxes/{RECORDED}/network") as (page, _, __):
        slider = page.get_by_role("slider", name="Moment")
        await expect(slider).to_be_enabled(timeout=SLOW)
        requests = page.get_by_role("region", name="Requests")
        for words in ("allowed", "pypi.example:443/simple", "denied", "evil.example:443", "not allowed"):
            await expect(requests).to_contain_text(words)
        await dragged_back(page, slider)
        await expect(page.get_by_role("heading", name="Nothing asked for the network")).to_be_visible()
        await page.get_by_role("tab", name="Findings").click()
        await expect(page.get_by_role("heading", name="The guardian found nothing")).to_be_visible()
        await slider.press("End")
        await expect(page.get_by_role("region", name="Findings")).to_contain_text("the same call again")
        await expect(page.get_by_role("region", name="Findings")).to_contain_text("repeated call")


async def dragged_back(page: Page, slider: Locator) -> None:
    """By the mouse, from now to the beginning."""
    box = await slider.bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    await page.mouse.move(box["x"] + box["width"] - 4, middle)
    await page.mouse.down()
    await page.mouse.move(box["x"] + box["width"] / 2, middle, steps=5)
    await expect(page.get_by_role("button", name="Live")).to_have_attribute("aria-pressed", "false")
    await page.mouse.move(box["x"], middle, steps=5)
    await page.mouse.up()


async def test_dark_and_light_are_the_systems_or_ones_own_and_stay(browser: Browser, gateway: Gateway) -> None:
    async with seen(browser, gateway) as (page, _, __):
        ground = page.locator("body")
        system = await ground_of(ground)
        await page.get_by_role("button", name="Switch to light").click()
        assert await ground_of(ground) == system
        await page.get_by_role("button", name="Switch to dark").click()
        dark = await ground_of(ground)
        assert dark != system
        await page.reload()
        await page.wait_for_selector("html[data-ready]", state="attached")
        assert await ground_of(ground) == dark
