"""Providers are found by name, so that a third party can add one."""

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.metadata import entry_points
from pathlib import Path
from typing import cast

from contracts.errors import Invalid, Unavailable
from contracts.spec import Isolation
from infra.sandbox.base import Provider

logger = logging.getLogger(__name__)

GROUP = "cloche.sandbox"


def known_providers() -> tuple[str, ...]:
    return tuple(sorted({entry.name for entry in entry_points(group=GROUP)}))


def load_provider(name: str, data_dir: Path) -> Provider:
    """The provider of that name, keeping its sandboxes under `data_dir`.

    The entry point is a function that takes the data directory. Raises `Invalid` for a name that nothing offers.
    """
    for entry in entry_points(group=GROUP, name=name):
        return cast("Provider", entry.load()(data_dir))
    known = ", ".join(known_providers()) or "none"
    raise Invalid(f"no sandbox provider is called {name!r}; known: {known}")


@asynccontextmanager
async def load_providers(data_dir: Path) -> AsyncIterator[dict[Isolation, Provider]]:
    """Every tier that this node can offer: one whose engine does not answer is left out, with a line in the log."""
    async with AsyncExitStack() as stack:
        offered: dict[Isolation, Provider] = {}
        for tier in (Isolation(name) for name in known_providers() if name in set(Isolation)):
            try:
                offered[tier] = await stack.enter_async_context(load_provider(tier, data_dir))
            except Unavailable as error:
                logger.info("%s sandboxes are not offered here: %s", tier, error.message)
        yield offered


async def why_not_offered(name: str, data_dir: Path) -> str | None:
    """What keeps this node from offering that tier; None when nothing does. Raises `Invalid` for an unknown name."""
    try:
        async with load_provider(name, data_dir):
            return None
    except Unavailable as error:
        return error.message


def default_isolation(providers: Mapping[Isolation, Provider]) -> Isolation:
    """Docker where there is one, else local."""
    return Isolation.DOCKER if Isolation.DOCKER in providers else Isolation.LOCAL
