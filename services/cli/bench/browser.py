"""A browser of this machine, for what only a page can tell."""

import importlib.util
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.async_api import Browser

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-dev-shm-usage",
)


def find_browser() -> str | None:
    """Chromium, where there is one and Playwright to drive it."""
    if importlib.util.find_spec("playwright") is None:
        return None
    return next((found for name in PROGRAMS if (found := shutil.which(name)) is not None), None)


@asynccontextmanager
async def browser(program: str) -> "AsyncIterator[Browser]":
    # It is not there where only what runs was installed.
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        opened = await playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        try:
            yield opened
        finally:
            await opened.close()
