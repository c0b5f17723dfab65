"""Three nodes, each on a host of its own."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

from tests.cluster_faults.lab import Lab
from tests.cluster_faults.network import enter
from tests.nodes.joined import JoinedNode

NAMES = ("n1", "n2", "n3")
CONFIG = """\
nodes = ["n1", "n2", "n3"]
first_uid = {first_uid}
[node]
labels = {{host = "{name}"}}
{more}
[intervals]
health_s = 0.5
"""


@contextlib.asynccontextmanager
async def nodes_in(place: Path, lab: Lab, more: str = "") -> AsyncIterator[dict[str, JoinedNode]]:
    """`more` is said of each of them in `[node]`."""

    def node(number: int, name: str) -> JoinedNode:
        config = CONFIG.format(name=name, first_uid=300_000 + 20_000 * number, more=more)
        begin = partial(enter, lab.network.namespace(name))
        return JoinedNode(name, place / name, lab.cluster.environment(), config, begin)

    nodes = {name: node(number, name) for number, name in enumerate(NAMES)}
    try:
        await asyncio.gather(*(each.start() for each in nodes.values()))
        yield nodes
    finally:
        await asyncio.gather(*(each.aclose() for each in nodes.values()))
