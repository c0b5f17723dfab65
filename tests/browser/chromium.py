"""The system's Chromium, driven by Playwright."""

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

import pytest
from playwright.async_api import Browser, Page, async_playwright

FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
)  # fmt: skip
PATH = shutil.which("chromium") or shutil.which("chromium-browser")

needs_chromium = pytest.mark.skipif(
    PATH is None and not os.environ.get("CLOCHE_REQUIRE_BROWSER"), reason="Chromium is not installed"
)


class Opened(NamedTuple):
    page: Page
    complaints: list[str]
    """Errors of the page, and what its policy refused."""
    asked: list[str]
    """Every address that it asked for."""


@asynccontextmanager
async def chromium(*more: str) -> AsyncIterator[Browser]:
    """`more`: flags."""
    assert PATH is not None, "Chromium is required here, and not installed"
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=PATH, args=[*FLAGS, *more])
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def opened(
    browser: Browser, address: str, *, width: int = 1280, height: int = 800, dark: bool = False
) -> AsyncIterator[Opened]:
    context = await browser.new_context(
        viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light"
    )
    page = await context.new_page()
    complaints: list[str] = []
    asked: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}"))
    page.on("request", lambda request: asked.append(request.url))
    try:
        await page.goto(address)
        await page.wait_for_selector("html[data-ready]", state="attached")
        yield Opened(page, complaints, asked)
    finally:
        await context.close()
