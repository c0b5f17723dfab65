"""For how long nodes have shown no sign of life, by the log and the vitals."""

from contracts.nodes import NodeRecord, Standing
from contracts.streams import Limits, vitals
from infra import clock
from infra.bus.connection import Bus
from infra.nodes import NodeLog, signs_of_life
from infra.observing import catalogue
from infra.observing.polling import poll
from infra.observing.within import within

KEPT_S = vitals(Limits()).max_age_s
"""Older signs are gone."""
EXPECTED_AWAY = (Standing.DRAINED, Standing.LOST)


async def watch_nodes(bus: Bus) -> None:
    """For ever, until cancelled. One that is drained may be switched off, and one that is lost has been told of."""
    log = NodeLog(bus)

    async def look() -> None:
        records, signs = await log.read(), await signs_of_life(bus)
        now = max([clock.now(), *(sign.entry.time for sign in signs.values())])
        for node in {*records, *signs}:
            if records.get(node, NodeRecord(node=node)).standing in EXPECTED_AWAY:
                catalogue.node_silent.forget(within(bus, node))
                continue
            sign = signs.get(node)
            silent_s = KEPT_S if sign is None else (now - sign.entry.time).total_seconds()
            catalogue.node_silent.set(min(silent_s, KEPT_S), within(bus, node))

    await poll(look)
