"""The servers of these settings, as they tell of themselves."""

from collections.abc import Sequence

from msgspec.structs import replace

from infra.access import open_as
from infra.bus.survey import ServerFacts, survey
from infra.embedded import secrets
from infra.embedded.users import SYSTEM
from infra.settings import Durability, Settings


def may_look(settings: Settings) -> bool:
    """Whoever was given the credentials of single users need not have the system's."""
    place = settings.credentials or secrets.directory(settings.data)
    return (place / f"{SYSTEM}.json").exists()


async def look(settings: Settings) -> tuple[ServerFacts, ...]:
    """Those that answer; none where we may not look. Raises `Unavailable`."""
    if not may_look(settings):
        return ()
    async with open_as(replace(settings, realm=""), SYSTEM) as system:
        return await survey(system)


def less_durable(settings: Settings, servers: Sequence[ServerFacts]) -> str | None:
    """Words for servers that keep less than the settings ask for."""
    lax = [server.name for server in servers if not server.syncs_always]
    if settings.durability != Durability.DISK or not lax:
        return None
    return (
        f"{', '.join(lax)} acknowledge before the disk has it, and durability `disk` is asked for:"
        " set `sync_interval: always` in their configuration, or say CLOCHE_DURABILITY=process"
    )
