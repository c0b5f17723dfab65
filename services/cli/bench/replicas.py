"""A log that three servers keep beside one that one of them keeps, and four logs beside one."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

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

ALONE, THRICE = "alone", "thrice"
"""A realm each, on the same servers."""
WHOLE = "whole"


async def replicas(place: Path, sizes: Sizes, progress: Progress) -> list[Figure]:
    """By one writer: others would wait for the same disk."""
    realms = [Realm(), Realm(name=ALONE), Realm(name=THRICE)]
    async with Servers(place / "copies", on_free_ports(3), realms=realms) as servers:
        await servers.provision(Limits(), ALONE)
        await servers.provision(Limits(replicas=3), THRICE)
        rates = await _in_turns(servers, [[THRICE], [ALONE]], sizes, progress, "copies")
    return _figures("kept by three servers (R3)", "by one of them (R1)", rates)


async def partitions(place: Path, sizes: Sizes, progress: Progress) -> list[Figure]:
    """By as many writers as there are logs, of one server."""
    parts = tuple(f"part{number}" for number in range(sizes.partitions))
    realms = [Realm(), *(Realm(name=name) for name in (WHOLE, *parts))]
    async with Servers(place / "parts", on_free_ports(1), realms=realms) as servers:
        for realm in (WHOLE, *parts):
            await servers.provision(Limits(), realm)
        rates = await _in_turns(servers, [parts, [WHOLE] * len(parts)], sizes, progress, "partitions")
    return _figures(f"by {len(parts)} writers to {len(parts)} logs", "to one log", rates)


async def _in_turns(
    servers: Servers, realms: Sequence[Sequence[str]], sizes: Sizes, progress: Progress, words: str
) -> list[list[Rate]]:
    """The rounds of each of the two."""
    rates: list[list[Rate]] = [[], []]
    for _ in progress.track(range(sizes.rounds), description=words):
        for number, names in enumerate(realms):
            rates[number].append(
                await together([await asyncio.to_thread(_job, servers, name, sizes) for name in names])
            )
    return rates


def _job(servers: Servers, realm: str, sizes: Sizes) -> Job:
    return Job(
        url=servers.url,
        login=login_name(realm, ADMIN),
        password=servers.password(ADMIN, realm),
        events=sizes.written,
        singles=sizes.singles,
    )


def _figures(ours: str, bare: str, rates: list[list[Rate]]) -> list[Figure]:
    mine, theirs = rates
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


def _percentile(rates: list[Rate], percent: int) -> float:
    return percentile([each for rate in rates for each in rate.milliseconds], percent)
