"""The realms of an installation: each is a whole Cloche of its own on the same servers.

A tenant is a realm. With `partitions` above one, a tenant is that many realms, and one more that holds no sandbox: it
remembers how many there are, see `infra/bus/partitions.py`.
"""

from msgspec.structs import replace

from contracts.errors import Invalid, Unavailable
from contracts.partitions import realm_of
from infra.embedded import endpoint, secrets
from infra.embedded.realm import OPEN, Realm
from infra.settings import Settings, Tenant


def served_realms(settings: Settings) -> tuple[Realm, ...]:
    """All that the server of these settings must know, tenants and their partitions."""
    tenants = {"": OPEN, **settings.realms}
    if settings.realm not in tenants:
        tenants[settings.realm] = Tenant()
    found: list[Realm] = []
    for name, limits in tenants.items():
        if settings.partitions == 1:
            found.append(Realm(name=name, limits=limits))
            continue
        share = _share(limits, settings.partitions)
        found.append(Realm(name=name, has_users=False))
        found += [Realm(name=realm_of(name, each), limits=share) for each in range(settings.partitions)]
    return tuple(found)


def tenants(settings: Settings) -> tuple[str, ...]:
    return tuple(dict.fromkeys(["", *settings.realms, settings.realm]))


def parts(settings: Settings) -> tuple[Settings, ...]:
    """The settings of each realm that these work in: themselves, or one for each partition, in order.

    A part is a whole Cloche with a data folder of its own. What a host has once is shared or divided: the server, the
    vault and its identity are the same, users of the host and room for sandboxes are divided.
    """
    if settings.partitions == 1:
        return (settings,)
    chosen = range(settings.partitions) if settings.partition is None else (settings.partition,)
    return tuple(_part(settings, each) for each in chosen)


def one_part(settings: Settings) -> Settings:
    """For what is about one log. Raises `Invalid` where it is not said which, `Unavailable` where nothing runs."""
    each = parts(settings)
    if len(each) > 1:
        raise Invalid(f"this is about one log, and there are {len(each)}: choose one with CLOCHE_PARTITION")
    if settings.partitions > 1 and each[0].url is None:
        raise Unavailable(f"nothing is running on {settings.data}: start it with `cloche up`")
    return each[0]


def _part(settings: Settings, partition: int) -> Settings:
    uids = (settings.last_uid - settings.first_uid + 1) // settings.partitions
    return replace(
        settings,
        data=settings.data / f"p{partition}",
        whole=settings.data,
        realm=realm_of(settings.realm, partition),
        partitions=1,
        partition=None,
        realms={},
        url=settings.url or endpoint.find(settings.data),
        credentials=settings.credentials or secrets.directory(settings.data),
        egress=replace(settings.egress, secrets=settings.egress.secrets or settings.data / "vault"),
        first_uid=settings.first_uid + partition * uids,
        last_uid=settings.first_uid + (partition + 1) * uids - 1,
        max_sandboxes=-(-settings.max_sandboxes // settings.partitions),
        capacity=replace(
            settings.capacity,
            memory_mb=settings.capacity.memory_mb and settings.capacity.memory_mb // settings.partitions,
            cpus=settings.capacity.cpus and settings.capacity.cpus / settings.partitions,
        ),
    )


def _share(limits: Tenant, partitions: int) -> Tenant:
    return replace(
        limits,
        max_memory_mb=limits.max_memory_mb and -(-limits.max_memory_mb // partitions),
        max_disk_mb=limits.max_disk_mb and -(-limits.max_disk_mb // partitions),
    )
