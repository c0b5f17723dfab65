"""The servers of a cluster as they tell of themselves. Only the system user may ask."""

import asyncio
import json
from typing import Any

from msgspec import Struct
from nats import errors as nats_errors

from contracts.errors import Unavailable
from infra.bus.connection import Bus
from infra.bus.replies import Reply

ANSWER_S = 3.0
"""Whoever has not answered after so long is taken to be away."""


class ServerFacts(Struct, frozen=True, kw_only=True):
    name: str
    syncs_always: bool
    """Whether it has a message on disk before it acknowledges it."""
    servers: int
    """How many it counts in its cluster, itself among them."""


async def survey(system: Bus) -> tuple[ServerFacts, ...]:
    """Every server with JetStream that answers, by name. Raises `Unavailable` when not connected."""
    answers: asyncio.Queue[Reply] = asyncio.Queue()
    try:
        token = await system.replies.send(
            "$SYS.REQ.SERVER.PING.JSZ", b'{"config": true}', answers.put_nowait, lambda _: None
        )
    except nats_errors.Error as error:
        raise Unavailable(f"not connected to {system.url}: {error}") from None
    found: dict[str, ServerFacts] = {}
    try:
        async with asyncio.timeout(ANSWER_S):
            while len(found) < max((facts.servers for facts in found.values()), default=1):
                facts = _facts(json.loads((await answers.get()).data))
                found[facts.name] = facts
    except TimeoutError:
        pass
    finally:
        system.replies.forget(token)
    return tuple(found[name] for name in sorted(found))


def _facts(answer: dict[str, Any]) -> ServerFacts:
    data = answer["data"]
    return ServerFacts(
        name=answer["server"]["name"],
        syncs_always=bool(data.get("config", {}).get("sync_always", False)),
        servers=int(data.get("meta_cluster", {}).get("cluster_size", 1)),
    )
