"""However many nodes take orders at the same moment, no more pass than the quota has places for."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial

import pytest
import pytest_asyncio

from contracts.commands.sandbox import StartSandbox
from contracts.errors import QuotaExceeded
from contracts.events.sandbox import SandboxCreating, SandboxFailed, SandboxStarted
from contracts.quotas import Quota, Quotas
from contracts.spec import Isolation
from contracts.state import Status
from contracts.streams import COMMANDS_STREAM
from infra.bus.connection import Bus
from infra.client import Sandbox
from infra.client.orders import publish
from infra.client.sandbox import load_state
from infra.usage import Usage
from tests.bus.servers import stored, until
from tests.quotas.telling import spec
from tests.quotas.two_spawners import NODES, Spawners, two_spawners, wanted

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(180)]

PLACES = 2
RIVALS = 6
ROUNDS = 4
QUOTAS = f"""
[quotas.project]
sandboxes = {PLACES}
[quotas.projects.sums]
cpus = 2.0
memory_mb = 2048
[quotas.projects.again]
cpus = 1.0
[quotas.projects.late]
cpus = 1.0
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def spawners(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Spawners]:
    async with two_spawners(tmp_path_factory.mktemp("racing"), QUOTAS) as found:
        yield found


async def outcomes(spawners: Spawners, project: str, rivals: int, **resources: float) -> list[Sandbox | QuotaExceeded]:
    asked = (spawners.cloche.create(wanted(project, **resources), id=f"{project}-{number}") for number in range(rivals))
    found = await asyncio.gather(*asked, return_exceptions=True)
    unexpected = [each for each in found if not isinstance(each, Sandbox | QuotaExceeded)]
    assert not unexpected
    return [each for each in found if isinstance(each, Sandbox | QuotaExceeded)]


@pytest.mark.parametrize("round_", range(ROUNDS))
async def test_of_many_at_once_exactly_as_many_pass_as_there_are_places(spawners: Spawners, round_: int) -> None:
    found = await outcomes(spawners, f"round{round_}", RIVALS)
    assert sum(isinstance(each, Sandbox) for each in found) == PLACES


async def test_memory_and_cpus_are_summed_over_nodes(spawners: Spawners) -> None:
    found = await outcomes(spawners, "sums", 4, cpus=0.5, memory_mb=1024)
    assert sum(isinstance(each, Sandbox) for each in found) == 2
    refusals = {each.details["resource"] for each in found if isinstance(each, QuotaExceeded)}
    assert refusals == {"memory_mb"}


async def test_of_many_that_start_again_at_once_only_those_stay_that_there_is_room_for(spawners: Spawners) -> None:
    stopped = []
    for number in range(3):
        stopped.append(await spawners.cloche.create(wanted("again", cpus=1.0), id=f"again-{number}"))
        await stopped[-1].stop()
    await asyncio.gather(*(each.boot() for each in stopped), return_exceptions=True)
    await until(partial(_is_idle, await spawners.server.connect("admin")))
    states = [await load_state(spawners.cloche.bus, each.id) for each in stopped]
    assert sorted(state.status for state in states) == [Status.RUNNING, Status.STOPPED, Status.STOPPED]


async def _is_idle(admin: Bus) -> bool:
    """Every order was obeyed or refused."""
    return await stored(admin, COMMANDS_STREAM) == 0


async def test_a_spawner_that_dies_between_a_start_and_the_verdict_stops_it_when_it_is_back(
    spawners: Spawners,
) -> None:
    late = await spawners.cloche.create(wanted("late", cpus=1.0), id="late")
    await late.stop()
    await spawners.cloche.create(wanted("late", cpus=1.0), id="early")
    stopped = await load_state(spawners.cloche.bus, "late")
    await spawners.services[stopped.node].kill()
    journal = await spawners.journal(stopped.node)
    begun = SandboxStarted(instance="i2")
    await journal.move("late", begun, expected=stopped.lifecycle_sequence, command="start-late")
    await publish(spawners.cloche.bus, stopped.node, "late", StartSandbox(), id="start-late")
    await spawners.services[stopped.node].start()
    await until(partial(_is_idle, await spawners.server.connect("admin")))
    state = await load_state(spawners.cloche.bus, "late")
    assert state.status == Status.STOPPED
    assert state.error is not None
    assert state.error.code == "QUOTA_EXCEEDED"


async def test_all_who_count_come_to_the_same_verdicts_whatever_is_written_at_once(spawners: Spawners) -> None:
    quotas = Quotas(project=Quota(sandboxes=7))
    counting = [Usage(await spawners.bus(), quotas) for _ in NODES]
    journals = [await spawners.journal(f"nobody{number}") for number in range(len(NODES))]
    async with asyncio.TaskGroup() as tasks:
        following = [tasks.create_task(each.follow()) for each in counting]
        names = [f"many-{number}" for number in range(60)]
        fact = SandboxCreating(spec=spec("many"), isolation=Isolation.LOCAL, node="nobody")
        moves = [journals[at % len(journals)].move(name, fact, expected=0) for at, name in enumerate(names)]
        last = max(await asyncio.gather(*moves))
        ledgers = [await each.reached(last) for each in counting]
        refused = [{name for name in names if ledger.verdict(name) is not None} for ledger in ledgers]
        for task in following:
            task.cancel()
    assert refused[0] == refused[1]
    assert len(refused[0]) == len(names) - 7


async def test_a_spawner_that_dies_between_its_claim_and_the_verdict_comes_to_it_when_it_is_back(
    spawners: Spawners,
) -> None:
    kept = [await spawners.cloche.create(wanted("full"), id=f"full-{number}") for number in range(PLACES)]
    assert len(kept) == PLACES
    await spawners.services["n1"].kill()
    claimed = SandboxCreating(spec=spec("full"), isolation=Isolation.LOCAL, node="n1")
    journal = await spawners.journal("n1")
    await journal.move("full-late", claimed, expected=0, command="asked-before")
    await spawners.services["n1"].start()
    async for event in (await spawners.cloche.sandbox("full-late")).events(follow=True):
        if event.head.type == "sandbox.failed":
            break
    fact = await journal.last("full-late", "sandbox.failed")
    assert isinstance(fact, SandboxFailed)
    assert fact.failure.code == "QUOTA_EXCEEDED"
    assert (await load_state(spawners.cloche.bus, "full-late")).status == Status.FAILED
