"""Whether the copies of streams and consumers on several servers are whole."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from contracts.errors import Unavailable
from contracts.streams import ConsumerSpec
from infra.bus.connection import Bus
from infra.bus.errors import ApiError

POLL_S = 0.25


async def unfinished(bus: Bus, streams: Iterable[str], consumers: Iterable[ConsumerSpec], replicas: int) -> list[str]:
    """What each still waits for, in words; nothing where there is one copy of each. `bus` must be the admin's."""
    if replicas == 1:
        return []
    requests = {name: f"STREAM.INFO.{name}" for name in streams}
    requests |= {f"{spec.stream}.{spec.durable}": f"CONSUMER.INFO.{spec.stream}.{spec.durable}" for spec in consumers}
    waiting = []
    for name, request in requests.items():
        try:
            found = _missing((await bus.api(request)).get("cluster", {}), replicas)
        except (Unavailable, ApiError) as error:
            found = error.message
        if found:
            waiting.append(f"{name}: {found}")
    return waiting


async def settle(
    bus: Bus,
    streams: Iterable[str],
    consumers: Iterable[ConsumerSpec],
    replicas: int,
    *,
    wait_s: float,
    tell: Callable[[str], None],
) -> None:
    """Returns when every copy is whole. Raises `Unavailable` naming what is not after `wait_s`."""
    streams, consumers = tuple(streams), tuple(consumers)
    deadline = asyncio.get_running_loop().time() + wait_s
    told = ""
    while waiting := await unfinished(bus, streams, consumers, replicas):
        if asyncio.get_running_loop().time() > deadline:
            raise Unavailable(f"after {wait_s:g} s some copies are not whole: {'; '.join(waiting[:5])}")
        if (words := f"{len(waiting)} not whole yet: {waiting[0]}") != told:
            tell(words)
            told = words
        await asyncio.sleep(POLL_S)


def _missing(cluster: dict[str, Any], replicas: int) -> str:
    if not cluster.get("leader"):
        return "no leader yet"
    others = cluster.get("replicas") or []
    for other in others:
        if other.get("offline"):
            return f"the copy on {other['name']} is out of reach"
        if not other.get("current") or other.get("lag", 0):
            return f"the copy on {other['name']} is {other.get('lag', 0)} behind"
    if len(others) < replicas - 1:
        return f"{len(others) + 1} of {replicas} copies"
    return "copies are being moved" if cluster.get("desired") else ""
