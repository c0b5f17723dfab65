"""From settings to a connection: which server, and as whom."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from contracts.errors import Unavailable
from infra.bus.connection import Bus, open_bus
from infra.embedded import endpoint, secrets
from infra.secrets.redaction import Redactor
from infra.secrets.store import SecretStore
from infra.settings import Settings

PATIENCE_S = 10.0


@asynccontextmanager
async def open_as(settings: Settings, user: str) -> AsyncIterator[Bus]:
    """Raises `Unavailable` when no server runs or answers, `Invalid` when the credentials cannot be read."""
    url = settings.url or endpoint.find(settings.data)
    if url is None:
        raise Unavailable(f"nothing is running on {settings.data}: start it with `cloche up`")
    login = secrets.read(settings.credentials or secrets.directory(settings.data), user)
    name = f"{user}-{settings.node}"
    async with open_bus(url, login.user, login.password, name, patience_s=PATIENCE_S) as bus:
        bus.redactor = Redactor(SecretStore.of(settings))
        yield bus
