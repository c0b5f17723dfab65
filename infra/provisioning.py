"""Provisioning of every realm that the settings name: tenants, and the partitions of each."""

from collections.abc import AsyncIterator, Callable
from functools import partial

from msgspec.structs import replace

from infra.access import PATIENCE_S, open_as
from infra.bus import partitions
from infra.bus.provision import Wanted, apply, plan, until_ready, wanted
from infra.embedded.users import ADMIN
from infra.realms import parts, tenants
from infra.settings import Settings


def wanted_in(settings: Settings) -> Wanted:
    """What each realm of these settings should have."""
    return wanted(settings.limits, settings.all_nodes, settings.partitions)


async def realms_of(
    settings: Settings, *, only: str | None = None, dry_run: bool = False, patience_s: float = PATIENCE_S
) -> AsyncIterator[Settings]:
    """The settings of each realm with streams, once it is sure that it may have them; `only` = of one tenant.

    Raises `Invalid` where a store was made with another number of partitions, and what `open_as` raises.
    """
    for tenant in tenants(settings) if only is None else (only,):
        whole = replace(settings, realm=tenant, partition=None)
        async with open_as(whole, ADMIN, patience_s=patience_s) as admin:
            keep = partial(
                partitions.keep, admin, settings.partitions, replicas=settings.limits.replicas, dry_run=dry_run
            )
            await until_ready(keep, wait_s=patience_s)
        for part in parts(whole):
            yield part


async def provision_realms(
    settings: Settings, *, only: str | None = None, tell: Callable[[str], None] = lambda _: None
) -> None:
    """Make the servers agree with this version, telling each change.

    Raises `Invalid` (it would weaken a log, or divide one into another number of partitions), `Unavailable`.
    """
    want = wanted_in(settings)
    async for part in realms_of(settings, only=only):
        async with open_as(part, ADMIN) as admin:
            await apply(admin, await plan(admin, want), tell=tell)
