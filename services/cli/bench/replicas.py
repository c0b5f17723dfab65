"""A log that three servers keep beside one that one of them keeps, and four logs beside one."""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import NamedTuple

from rich.progress import Progress

from contracts.streams import Limits
from infra.embedded.realm import Realm
from infra.embedded.users import ADMIN, login_name
from infra.nats.servers import Servers, on_free_ports
from services.cli.bench.figure import Figure
from services.cli.bench.percentile import median, percentile
from services.cli.bench.sizes import Sizes
from services.cli.bench.writers import Rate, together
from services.cli.bench.writing import Job

ONCE, THRICE = "once", "thrice"
"""A realm each, on the same three servers."""
WHOLE = "whole"
SHARE = 4
"""One of many writers writes so much less than one that has the log for itself."""


class Contestant(NamedTuple):
    """Writers that begin together: each to a log of these servers."""

    servers: Servers
    realms: Sequence[str]


async def replicas(place: Path, sizes: Sizes, progress: Progress) -> list[Figure]:
    """By one writer, and by many to the same log; beside a server that is no part of a cluster, too."""
    realms = [Realm(), Realm(name=ONCE), Realm(name=THRICE)]
    async with AsyncExitStack() as running:
        cluster = await running.enter_async_context(Servers(place / "copies", on_free_ports(3), realms=realms))
        await cluster.provision(Limits(), ONCE)
        await cluster.provision(Limits(replicas=3), THRICE)
        alone = await running.enter_async_context(Servers(place / "alone", on_free_ports(1), realms=realms[:2]))
        await alone.provision(Limits(), ONCE)
        found = []
        for writers in (1, sizes.writers):
            logs = ((cluster, THRICE), (cluster, ONCE), (alone, ONCE))
            contestants = [Contestant(servers, [realm] * writers) for servers, realm in logs]
            events = sizes.written if writers == 1 else sizes.written // SHARE
            by = "one writer" if writers == 1 else f"{writers} writers side by side"
            rates = await _in_turns(contestants, events, sizes, progress, f"copies, {by}")
            found += _figures(f"by {by}, kept by three servers (R3)", "by one of them (R1)", rates[0], rates[1])
            found.append(_stored(f"by {by}, kept by a server that is alone (R1)", rates[2]))
    return found


async def partitions(place: Path, sizes: Sizes, progress: Progress) -> list[Figure]:
    """By as many writers as there are logs, of one server."""
    parts = tuple(f"part{number}" for number in range(sizes.partitions))
    realms = [Realm(), *(Realm(name=name) for name in (WHOLE, *parts))]
    async with Servers(place / "parts", on_free_ports(1), realms=realms) as servers:
        for realm in (WHOLE, *parts):
            await servers.provision(Limits(), realm)
        contestants = [Contestant(servers, parts), Contestant(servers, [WHOLE] * len(parts))]
        rates = await _in_turns(contestants, sizes.written, sizes, progress, "partitions")
    return _figures(f"by {len(parts)} writers to {len(parts)} logs", "to one log", rates[0], rates[1])


async def _in_turns(
    contestants: Sequence[Contestant], events: int, sizes: Sizes, progress: Progress, words: str
) -> list[list[Rate]]:
    """The rounds of each of them; `events` of each writer."""
    rates: list[list[Rate]] = [[] for _ in contestants]
    for _ in progress.track(range(sizes.rounds), description=words):
        for rounds, (servers, realms) in zip(rates, contestants, strict=True):
            jobs = [await asyncio.to_thread(_job, servers, realm, events, sizes.singles) for realm in realms]
            rounds.append(await together(jobs))
    return rates


def _job(servers: Servers, realm: str, events: int, singles: int) -> Job:
    return Job(
        url=servers.url,
        login=login_name(realm, ADMIN),
        password=servers.password(ADMIN, realm),
        events=events,
        singles=singles,
    )


def _figures(ours: str, bare: str, mine: list[Rate], theirs: list[Rate]) -> list[Figure]:
    pairs = zip(mine, theirs, strict=True)
    return [
        Figure(
            what=f"events stored, {ours}",
            value=median([each.events_per_s for each in mine]),
            unit="events/s",
            bare=median([each.events_per_s for each in theirs]),
            beside=bare,
            ratios=tuple(one.events_per_s / other.events_per_s for one, other in pairs),
        ),
        *(
            Figure(
                what=f"one event stored, {ours}, p{percent}",
                value=_percentile(mine, percent),
                unit="ms",
                bare=_percentile(theirs, percent),
                beside=bare,
            )
            for percent in (50, 99)
        ),
    ]


def _stored(ours: str, rates: list[Rate]) -> Figure:
    return Figure(what=f"events stored, {ours}", value=median([each.events_per_s for each in rates]), unit="events/s")


def _percentile(rates: list[Rate], percent: int) -> float:
    return percentile([each for rate in rates for each in rate.milliseconds], percent)
