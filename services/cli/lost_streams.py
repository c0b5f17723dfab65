"""Streams and buckets that a running NATS should have and has not, made again."""

from infra.provisioning import provision_realms
from infra.settings import Settings
from services.cli.words import say


async def make_again(settings: Settings) -> None:
    """Says what it makes. Raises `Unavailable`, and `Invalid` where that would weaken the log."""
    await provision_realms(settings, only=settings.realm, tell=say)
