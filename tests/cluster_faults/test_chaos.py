"""Three servers and three nodes, each on a host of its own, struck one after another while 200 commands run."""

import asyncio
import contextlib
import datetime
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import NamedTuple

import pytest
import pytest_asyncio

from contracts import subjects
from contracts.errors import Unavailable
from contracts.streams import LOG_STREAM
from contracts.verifying import Trust
from infra.bus import reader
from infra.bus.connection import Bus
from infra.client import Cloche
from infra.log.live import LiveView
from infra.settings import Durability
from infra.verify.log import verify_log
from tests.audit.rig import checkpoints
from tests.bus.servers import until
from tests.cluster_faults import nodes
from tests.cluster_faults.across import Across
from tests.cluster_faults.lab import Lab, lab_in
from tests.cluster_faults.nodes import nodes_in
from tests.cluster_faults.work import Work
from tests.health.log import next_of
from tests.nodes.joined import JoinedNode

pytestmark = [pytest.mark.timeout(900), pytest.mark.asyncio(loop_scope="module")]

COMMANDS = int(os.environ.get("CLOCHE_CHAOS_COMMANDS", "200"))
DIES = "n3"
CUT = datetime.timedelta(seconds=30)


class Place(NamedTuple):
    lab: Lab
    nodes: dict[str, JoinedNode]
    cloche: Cloche


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def place(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Place]:
    """As in production: TLS between servers and to clients, and nothing is acknowledged before two disks have it."""
    directory = tmp_path_factory.mktemp("chaos")
    async with (
        lab_in(directory / "nats", nodes=nodes.NAMES, durability=Durability.DISK) as lab,
        nodes_in(directory, lab) as found,
        Cloche.connect(found["n1"].settings) as cloche,
    ):
        yield Place(lab, found, cloche)


def say(words: str) -> None:
    print(f"{time.monotonic():.1f} {words}", file=sys.stderr)


async def kill_a_server(place: Place) -> None:
    """The one that leads the log."""
    cluster = place.lab.cluster
    leader = await cluster.leader(place.lab.admin)
    cluster.servers[leader].kill()
    await cluster.leader(place.lab.admin, but=leader)
    cluster.servers[leader].start()
    await cluster.whole(place.lab.admin, LOG_STREAM)


async def kill_a_nodes_services(place: Place) -> None:
    await place.nodes["n1"].end()
    await place.nodes["n1"].start()


async def cut_one_server_and_one_node(place: Place) -> None:
    """For half a minute, as the log of the others has it. What was cut off catches up while the next strike falls."""
    cluster, network = place.lab.cluster, place.lab.network
    leader = await cluster.leader(place.lab.admin)
    others = await place.lab.connect("admin", servers=[name for name in cluster.servers if name != leader])
    for host in (leader, "n2"):
        network.cut(host)
    try:
        await cluster.leader(others, but=leader)
        begun = datetime.datetime.now(datetime.UTC)
        await until(partial(_has_stored_since, others, begun + CUT), seconds=120)
    finally:
        for host in (leader, "n2"):
            network.heal(host)


async def _has_stored_since(bus: Bus, moment: datetime.datetime) -> bool:
    with contextlib.suppress(Unavailable):
        newest = await reader.last(bus, subjects.LOG)
        return newest is not None and newest.time >= moment
    return False


async def kill_a_whole_node(place: Place) -> None:
    """With its keeper and its sandboxes."""
    await place.nodes[DIES].die()
    await place.nodes[DIES].start()


async def restart_all_in_turn(place: Place) -> None:
    await place.lab.cluster.whole(place.lab.admin, LOG_STREAM)
    for server in place.lab.cluster.servers.values():
        server.kill(signal.SIGTERM)
        server.start()
        await place.lab.cluster.whole(place.lab.admin, LOG_STREAM)
        say(f"{server.address.name} again")
    for node in place.nodes.values():
        await node.end(signal.SIGTERM)
        await node.start()


async def until_proven(place: Place) -> None:
    """Whichever node has to sign by now, it does."""
    last = (await reader.bounds(place.cloche.bus)).last

    async def is_proven() -> bool:
        return (await checkpoints(place.cloche.bus))[-1].last_sequence >= last

    await until(is_proven, seconds=90)
    say(f"proven by {len({each.key for each in await checkpoints(place.cloche.bus)})} keys")


Strike = Callable[[Place], Awaitable[None]]
STRIKES: dict[Strike, float] = {
    kill_a_server: 0.5,
    kill_a_nodes_services: 0.5,
    cut_one_server_and_one_node: 2.5,
    kill_a_whole_node: 0.8,
    restart_all_in_turn: 0.6,
}
"""And how long commands wait after each line meanwhile, so that some run from its beginning to its end."""


async def test_nothing_acknowledged_is_lost_and_everything_ends_with_a_cause(place: Place) -> None:
    made = await asyncio.gather(
        *(place.cloche.create({"node_labels": {"host": name}}) for name in nodes.NAMES for _ in range(2))
    )
    assert sorted(sandbox.state.node for sandbox in made) == sorted([*nodes.NAMES] * 2)
    mortal = [sandbox for sandbox in made if sandbox.state.node == DIES]
    spared = [sandbox for sandbox in made if sandbox not in mortal]
    work = Work(made)
    share = COMMANDS // len(STRIKES)
    running: list[Awaitable[None]] = []
    across: dict[Strike, Across] = {}
    excused: set[int] = set()
    for turn, (strike, pause_s) in enumerate(STRIKES.items()):
        numbers = range(turn * share, (turn + 1) * share)
        running.append(asyncio.create_task(work.run(numbers, pause_s)))
        across[strike] = Across(made, turn)
        await asyncio.gather(across[strike].begin(), until(partial(work.has_begun, turn * share), seconds=60))
        say(strike.__name__)
        before, ended = (await reader.bounds(place.cloche.bus)).last, set(work.ended)
        await strike(place)
        if strike is kill_a_whole_node:
            await asyncio.gather(*(next_of(each, "sandbox.recovered", after=before) for each in mortal))
            # What was on its way or asked for while it was dead may end with it; nothing before, and nothing after.
            excused = {each for each in set(work.asked) - ended if work.sandbox_of(each) in mortal}
        else:
            # They end before their node does; the others when they can.
            await across[strike].release(mortal)
        running.append(asyncio.create_task(across[strike].release(spared)))
    say("all is whole")
    await asyncio.gather(*running)
    say("all have ended")
    assert len(work.acknowledged) == share * len(STRIKES)
    for strike, witnesses in across.items():
        await witnesses.check(place.cloche, died=DIES if strike is kill_a_whole_node else "")
    ends = await work.check(place.cloche, excused=excused)
    say(f"ended: {ends}, excused: {len(excused)}")
    for sandbox in made:
        # All live again, and where one was brought back its files came along. Nothing ran twice.
        ran = await sandbox.run("for f in ran-*; do wc -l < $f; done | sort -u")
        assert ran.stdout.split() in ([b"1"], [b"0", b"1"])
    for node in place.nodes.values():
        await until(node.holds_nothing, seconds=60)
    await until_proven(place)
    verdict = await verify_log(LiveView(place.cloche.bus), Trust((), None, ()), lambda *_: None)
    assert (verdict.findings, verdict.open) == ((), ())
