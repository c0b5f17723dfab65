"""For how long nodes have shown no sign of life, by the log and the vitals."""

import datetime
from typing import NamedTuple

from contracts.nodes import NodeRecord, Standing
from contracts.streams import VITALS_STREAM, Limits, vitals
from infra import clock
from infra.bus.connection import Bus
from infra.bus.server_time import server_now
from infra.nodes import NodeLog, Sign, signs_of_life
from infra.observing import catalogue
from infra.observing.polling import poll
from infra.observing.within import within

KEPT_S = vitals(Limits()).max_age_s
"""Older signs are gone."""
EXPECTED_AWAY = (Standing.DRAINED, Standing.LOST)


class _Heard(NamedTuple):
    sequence: int
    at: float


class Silences:
    """Since a sign was heard, by a clock that nobody sets. The first of a node may be an old one: that is as old as the
    servers say.
    """

    def __init__(self) -> None:
        self._heard: dict[str, _Heard] = {}

    def of(self, node: str, sign: Sign, theirs: datetime.datetime) -> float:
        """Seconds; `theirs` is the time as the servers have it."""
        now, known = clock.steady(), self._heard.get(node)
        if known is None:
            known = _Heard(sign.entry.seq, now - max((theirs - sign.entry.time).total_seconds(), 0.0))
        elif known.sequence != sign.entry.seq:
            known = _Heard(sign.entry.seq, now)
        self._heard[node] = known
        return now - known.at


async def watch_nodes(bus: Bus) -> None:
    """For ever, until cancelled. One that is drained may be switched off, and one that is lost has been told of."""
    log, silences = NodeLog(bus), Silences()

    async def look() -> None:
        records, signs = await log.read(), await signs_of_life(bus)
        now = await server_now(bus, VITALS_STREAM)
        for node in {*records, *signs}:
            if records.get(node, NodeRecord(node=node)).standing in EXPECTED_AWAY:
                catalogue.node_silent.forget(within(bus, node))
                continue
            sign = signs.get(node)
            silent_s = KEPT_S if sign is None else silences.of(node, sign, now)
            catalogue.node_silent.set(min(silent_s, KEPT_S), within(bus, node))

    await poll(look)
