"""From settings to a connection: which server, and as whom."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from contracts.errors import Unavailable
from infra.bus import tls
from infra.bus.connection import Bus, open_bus
from infra.embedded import endpoint, secrets
from infra.observing.presence import presence
from infra.secrets.redaction import Redactor
from infra.secrets.store import SecretStore
from infra.settings import Settings

PATIENCE_S = 10.0


@asynccontextmanager
async def open_as(settings: Settings, user: str, *, patience_s: float = PATIENCE_S) -> AsyncIterator[Bus]:
    """Raises `Unavailable` when no server runs or answers, `Invalid` when the credentials cannot be read."""
    url = settings.url or endpoint.find(settings.data)
    if url is None:
        raise Unavailable(f"nothing is running on {settings.data}: start it with `cloche up`")
    place = settings.credentials or secrets.directory(settings.data)
    login = secrets.read(place, user, settings.realm)
    name = f"{user}-{settings.node}"
    context = tls.context(url, settings.tls.ca, settings.tls.cert, settings.tls.key)
    async with open_bus(url, login.user, login.password, name, patience_s=patience_s, tls=context) as bus:
        bus.new_password = lambda: secrets.read(place, user, settings.realm).password
        bus.redactor = Redactor(SecretStore.of(settings))
        bus.service, bus.realm = user, settings.realm
        with presence().connection(user, lambda: bus.is_connected):
            yield bus
