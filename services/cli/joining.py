"""What a node needs before it can join servers that are run elsewhere, and what to do about what is missing."""

import asyncio
from collections.abc import Callable

from contracts.errors import Invalid, Unavailable
from contracts.streams import create_consumer, spawner_consumer
from infra.access import open_as
from infra.bus.connection import Bus
from infra.bus.errors import CONSUMER_NOT_FOUND, STREAM_NOT_FOUND, ApiError, Denied, NobodyAnswers
from infra.embedded import secrets
from infra.embedded.users import ADMIN, CLIENT, SYSTEM, USERS
from infra.node_name import check_name
from infra.settings import Settings

PATIENCE_S = 60.0
"""Servers that are started at the same time as their nodes need some of it."""

NEEDED = tuple(user for user in USERS if user not in (ADMIN, CLIENT, SYSTEM))


async def check_joined(settings: Settings, tell: Callable[[str], None], *, patience_s: float = PATIENCE_S) -> str:
    """The servers' address, once they answer and know of this node.

    Raises `Invalid` for what a person has to do first, `Unavailable` when no server answers within `patience_s`.
    """
    if settings.url is None:
        raise Invalid(
            "`cloche node` joins servers that are run elsewhere: set CLOCHE_URL to their address. "
            "For one machine with a server of its own: `cloche up`"
        )
    _check_credentials(settings)
    tell(f"node {settings.node}: joining {settings.url}")
    deadline = asyncio.get_running_loop().time() + patience_s
    while True:
        try:
            async with open_as(settings, "spawner") as bus:
                await _check_provisioned(bus, settings.node)
                await check_name(bus, settings)
        except Unavailable as error:
            if asyncio.get_running_loop().time() > deadline:
                raise
            tell(f"node {settings.node}: not yet: {error.message}")
            await asyncio.sleep(1)
        else:
            return settings.url


def _check_credentials(settings: Settings) -> None:
    place = settings.credentials or secrets.directory(settings.data)
    if settings.credentials is None and not place.is_dir():
        raise Invalid(
            "no credentials: set CLOCHE_CREDS to the directory of <user>.json files that was made for the servers"
        )
    for user in NEEDED:
        secrets.read(place, user, settings.realm)


async def _check_provisioned(bus: Bus, node: str) -> None:
    for spec in (spawner_consumer(node), create_consumer()):
        try:
            await bus.api(f"CONSUMER.INFO.{spec.stream}.{spec.durable}")
        except (Denied, NobodyAnswers):
            raise Invalid(
                f"the servers let nobody take orders for node {node!r}: "
                "name it in `nodes`, write their configuration again, and run `cloche provision`"
            ) from None
        except ApiError as error:
            if error.number not in (CONSUMER_NOT_FOUND, STREAM_NOT_FOUND):
                raise
            raise Invalid(
                f"there is no {spec.durable} on the servers: run `cloche provision` with CLOCHE_NODE={node}"
            ) from None
