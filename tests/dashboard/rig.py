"""A node with agents and a real gateway, and its dashboard in a real browser."""

import os
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from playwright.async_api import Browser, Page

from contracts.access import Role, Scope
from infra.ports import free_port
from tests.dashboard.tools import AXE, built, installed
from tests.gateway.rig import Gateway
from tests.services.node import SERVICES, Node, Service

SHOTS = os.environ.get("CLOCHE_SCREENSHOTS")
"""Where pictures of what was seen are left, for whoever wants to look, and for the README: see docs/dashboard.md."""
SERIOUS = frozenset({"serious", "critical"})


class Seen(NamedTuple):
    page: Page
    complaints: list[str]
    """Errors of the page, and what its policy refused."""
    asked: list[str]
    """Every address that it asked for."""


@asynccontextmanager
async def dashboard_in(
    data: Path, services: Collection[str] = (*SERVICES, "agent", "guardian"), **values: str
) -> AsyncIterator[Gateway]:
    built()
    port = free_port()
    own = {"CLOCHE_GATEWAY_PORT": str(port), **values}
    node = Node(data, **own)
    node.services = {name: Service(name, data, own) for name in (*services, "gateway")}
    async with node, node.connect() as cloche:
        yield Gateway(node, cloche, port)


@asynccontextmanager
async def seen(
    browser: Browser,
    gateway: Gateway,
    place: str = "#/",
    *,
    role: Role = Role.OPERATOR,
    dark: bool = False,
    phone: bool = False,
    scope: Scope | None = None,
) -> AsyncIterator[Seen]:
    size = {"width": 390, "height": 844} if phone else {"width": 1360, "height": 850}
    context = await browser.new_context(viewport=size, color_scheme="dark" if dark else "light", timezone_id="UTC")  # type: ignore[arg-type]
    page = await context.new_page()
    complaints: list[str] = []
    asked: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}"))
    page.on("request", lambda request: asked.append(request.url))
    page.on("websocket", lambda socket: asked.append(socket.url))
    try:
        await page.goto(f"{gateway.url}/?token={gateway.token(role, scope)}")
        await page.wait_for_selector("html[data-ready]", state="attached")
        await page.evaluate("place => { location.hash = place }", place)
        yield Seen(page, complaints, asked)
    finally:
        await context.close()


async def shot(page: Page, name: str) -> None:
    if SHOTS:
        await page.screenshot(path=Path(SHOTS) / f"dashboard-{name}.png")


async def sideways(page: Page) -> int:
    """By how much something is wider than its place, or cut off by it."""
    wider: int = await page.evaluate(
        """() => Math.max(...["html", "main", ".list", ".sandbox-head", ".work", ".agent-panel", ".story", "dialog"]
            .map(place => document.querySelector(place)).filter(Boolean)
            .map(place => place.scrollWidth - place.clientWidth))"""
    )
    return wider


async def faults(page: Page) -> list[str]:
    """What axe-core finds serious. Not through `add_script_tag`, which the page's policy refuses."""
    installed()
    await page.evaluate(AXE.read_text())
    found: dict[str, Any] = await page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
    return [
        f"{each['id']}: {each['help']}: {each['nodes'][0]['target']} {each['nodes'][0]['failureSummary']}"
        for each in found["violations"]
        if each["impact"] in SERIOUS
    ]
