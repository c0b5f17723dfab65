"""How many partitions a store has: fixed when it is made, and kept in the store itself.

A sandbox is found by its id and that number, so with another one every sandbox would be looked for where it is not.
"""

from typing import Any

from contracts.errors import Invalid
from contracts.streams import LOG_STREAM
from infra.bus.connection import Bus
from infra.bus.errors import STREAM_NOT_FOUND, ApiError

STREAM = "CLOCHE_PARTITIONS"
"""In the hub of the tenant itself, which holds no sandbox where there are several."""
KEY = "cloche.partitions"
"""In the metadata of that stream, and of the log of each partition, where every user can read it."""


def metadata(partitions: int) -> dict[str, Any]:
    """For the configuration of a log."""
    return {} if partitions == 1 else {"metadata": {KEY: str(partitions)}}


async def keep(admin: Bus, partitions: int, *, replicas: int = 1, dry_run: bool = False) -> None:
    """Note the number where there is none yet. Raises `Invalid` where the store was made with another, `ApiError`."""
    found = await _found(admin)
    if found is not None and (made_with := _number_in(found)) != partitions:
        raise Invalid(_refusal(made_with, partitions), field="partitions")
    if partitions == 1 or dry_run:
        return
    config = {"name": STREAM, "subjects": [KEY], "num_replicas": replicas, "deny_delete": True, "deny_purge": True}
    if found is None:
        await admin.api(f"STREAM.CREATE.{STREAM}", config | metadata(partitions))
    elif found["config"]["num_replicas"] != replicas:
        await admin.api(f"STREAM.UPDATE.{STREAM}", config | metadata(partitions))


async def check(bus: Bus, partitions: int) -> None:
    """Raises `Invalid` where this log is one of another number of partitions, `ApiError` where there is none."""
    info = await bus.api(f"STREAM.INFO.{LOG_STREAM}")
    if (made_with := _number_in(info)) != partitions:
        raise Invalid(_refusal(made_with, partitions), field="partitions")


def _refusal(made_with: int, partitions: int) -> str:
    return (
        f"this store was made with {made_with} partition{'s' * (made_with != 1)}, and `partitions` is {partitions}:"
        " the number cannot be changed, as every sandbox is found by it; set it back, or begin a new store"
    )


async def _found(admin: Bus) -> dict[str, Any] | None:
    """What the store says of it: the note, or a log, which then is the only one."""
    for stream in (STREAM, LOG_STREAM):
        try:
            return await admin.api(f"STREAM.INFO.{stream}")
        except ApiError as error:
            if error.number != STREAM_NOT_FOUND:
                raise
    return None


def _number_in(info: dict[str, Any]) -> int:
    return int((info["config"].get("metadata") or {}).get(KEY, 1))
