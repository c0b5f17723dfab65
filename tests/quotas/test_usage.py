"""Whoever counts goes on counting, whatever happens to the server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from contracts.events.agent import AgentMetrics
from contracts.events.sandbox import SandboxCreating, SandboxRemoved
from contracts.ledger import Ledger
from contracts.quotas import Kind, Quota, Quotas, QuotaUse, Use
from contracts.spec import Isolation
from infra import clock
from infra.bus.gaps import Gap
from infra.journal import Journal
from infra.usage import Usage
from tests.bus.servers import Server, nats_in
from tests.quotas.telling import spec

QUOTAS = Quotas(project=Quota(sandboxes=2, spend_usd=1))
CREATING = SandboxCreating(spec=spec(), isolation=Isolation.LOCAL, node="local", by="gateway/alice")


@asynccontextmanager
async def counting(server: Server) -> AsyncIterator[Usage]:
    usage = Usage(await server.connect("agent"), QUOTAS)
    following = asyncio.create_task(usage.follow())
    try:
        await usage.caught_up.wait()
        yield usage
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


def of_web(ledger: Ledger) -> QuotaUse:
    return next(line for line in ledger.lines(clock.now()) if line.kind is Kind.PROJECT)


async def spend(server: Server, sandbox: str, usd: float, number: int) -> None:
    journal = Journal(await server.connect("agent"), service="agent", node="local")
    await journal.append(journal.write(sandbox, AgentMetrics(run="r", cost_usd=usd), id=f"{sandbox}.{number}"))


async def test_what_was_and_what_comes_is_counted_over_the_death_of_the_server(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        journal = Journal(await server.connect("spawner"), service="spawner", node="local")
        first = await journal.move("a", CREATING, expected=0)
        await spend(server, "a", 0.25, 1)
        async with counting(server) as usage:
            assert of_web(usage.ledger).used.sandboxes == 1
            assert of_web(usage.ledger).spent_usd == 0.25
            await server.kill_and_wait()
            await journal.move("b", CREATING, expected=0)
            await journal.move("a", SandboxRemoved(reason="asked"), expected=first)
            await spend(server, "b", 0.5, 1)
            line = of_web(await usage.newest())
            assert (line.used, line.spent_usd) == (Use(sandboxes=1, cpus=1, memory_mb=1024), 0.75)


async def test_an_empty_log_is_counted_at_once(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server, counting(server) as usage:
        assert list(usage.ledger.lines(clock.now())) == []


async def test_what_the_log_has_lost_makes_it_count_anew(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        journal = Journal(await server.connect("spawner"), service="spawner", node="local")
        await journal.move("a", CREATING, expected=0)
        async with counting(server) as usage:
            before = usage.ledger
            usage.lack(Gap(1, 1))
            await journal.move("b", CREATING, expected=0)
            while usage.ledger is before:
                await usage.changed()
            assert of_web(await usage.newest()).used.sandboxes == 2
