"""Quotas as people meet them: by client, command line and HTTP, with a real node behind."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import msgspec
import pytest
import pytest_asyncio

from contracts.access import Role
from contracts.errors import QuotaExceeded
from contracts.events.agent import AgentMessage, AgentMetrics
from contracts.quotas import GetQuotas, Kind, QuotaUse, Use
from infra.client import Sandbox
from infra.client.quotas import every_quota, quotas
from infra.embedded import secrets
from tests.agents.conformance.scenes import story
from tests.agents.scripted.playing import begin
from tests.cli.shell import Said, Shell
from tests.gateway.rig import Gateway, gateway_in

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(180)]

QUOTAS = """
[quotas.projects.one]
sandboxes = 1
[quotas.projects.forks]
sandboxes = 1
[quotas.projects.shown]
sandboxes = 1
[quotas.projects.cpus]
cpus = 1.0
[quotas.projects.paid]
spend_usd = 1.0
spend_per = "ever"
[quotas.projects.shared]
spend_usd = 1.0
spend_per = "day"
[quotas.principals.bob]
sandboxes = 0
"""
SANDBOXES = "/api/v1/sandboxes"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Gateway]:
    data = tmp_path_factory.mktemp("quotas")
    (data / "cloche.toml").write_text(QUOTAS)
    async with gateway_in(data, "agent") as found:
        yield found


async def made(gateway: Gateway, project: str, name: str) -> Sandbox:
    spec = {"project_id": project, "network": {"mode": "none"}, "resources": {"cpus": 1.0}}
    return await gateway.cloche.create(spec, id=name)


async def of_project(gateway: Gateway, name: str) -> QuotaUse:
    (found,) = (await quotas(gateway.cloche.bus, GetQuotas(kind=Kind.PROJECT, name=name))).quotas
    return found


async def typed(gateway: Gateway, *arguments: str) -> Said:
    node = gateway.node
    shell = Shell(node.data, CLOCHE_URL=node.server.url, CLOCHE_CREDS=str(secrets.directory(node.data)))
    return await asyncio.to_thread(shell, *arguments)


async def test_a_full_project_is_refused_everywhere_in_the_same_words_until_something_is_removed(
    gateway: Gateway,
) -> None:
    first = await made(gateway, "one", "one-1")
    words = "quota: project 'one' has 1 of 1 sandboxes, and this takes 1 more: remove one, or have the quota raised"
    with pytest.raises(QuotaExceeded) as refused:
        await made(gateway, "one", "one-2")
    assert refused.value.message == words
    said = await typed(gateway, "create", "--set", "project_id=one")
    assert said.code != 0
    assert words in said.err.decode()
    async with gateway.client() as client:
        answer = await client.post(f"{SANDBOXES}?wait=60", json={"spec": {"project_id": "one"}})
        assert (answer.status_code, answer.json()["code"]) == (429, "QUOTA_EXCEEDED")
        assert answer.json()["detail"] == words
        await first.remove()
        again = await client.post(f"{SANDBOXES}?wait=60", json={"id": "one-3", "spec": {"project_id": "one"}})
        assert again.status_code == 201, again.text


async def test_a_fork_counts_like_any_other(gateway: Gateway) -> None:
    origin = await made(gateway, "forks", "origin")
    flushed = await origin.flush()
    with pytest.raises(QuotaExceeded):
        await gateway.cloche.fork(origin.id, at=flushed.sequence)
    forked = await gateway.cloche.fork(origin.id, at=flushed.sequence, overrides={"project_id": "other"})
    assert (await of_project(gateway, "other")).used.sandboxes == 1
    await forked.remove()


async def test_a_principal_is_whoever_the_token_names(gateway: Gateway) -> None:
    async with gateway.client(gateway.token(subject="bob")) as client:
        answer = await client.post(f"{SANDBOXES}?wait=60", json={})
        assert (answer.status_code, answer.json()["code"]) == (429, "QUOTA_EXCEEDED")
        assert "principal 'bob' has 0 of 0 sandboxes" in answer.json()["detail"]


async def test_a_stopped_sandbox_makes_room_and_starts_again_only_where_there_is_some(gateway: Gateway) -> None:
    first = await made(gateway, "cpus", "cpus-1")
    await first.stop()
    assert (await of_project(gateway, "cpus")).used == Use(sandboxes=1)
    second = await made(gateway, "cpus", "cpus-2")
    for again in (first.boot, first.recover):
        with pytest.raises(QuotaExceeded, match="1 of 1 CPUs"):
            await again()
    await second.stop()
    await first.boot()
    assert (await of_project(gateway, "cpus")).used == Use(sandboxes=2, cpus=1, memory_mb=4096)


async def test_a_spent_quota_stops_the_agent_and_begins_no_other_also_after_a_restart(gateway: Gateway) -> None:
    sandbox = await made(gateway, "paid", "paid-1")
    script: Any = [{"spend": {"cost_usd": 0.6}}, {"say": "on"}, {"spend": {"cost_usd": 0.6}}, {"say": "never"}]
    run = await begin(sandbox, script)
    ended = await run.wait()
    words = "agents of project 'paid' have spent 1.2000 of 1 USD: have the quota raised"
    assert ended.reason == f"budget: quota: {words}"
    told = await story(run)
    assert [fact.cost_usd for fact in told if isinstance(fact, AgentMetrics)] == [0.6, 0.6]
    assert [fact.text for fact in told if isinstance(fact, AgentMessage) and not fact.partial] == ["on"]
    for _ in range(2):
        with pytest.raises(QuotaExceeded, match=words):
            await begin(sandbox, script)
        with pytest.raises(QuotaExceeded, match=words):
            await made(gateway, "paid", "paid-2")
        await asyncio.gather(*(gateway.node.restart(name) for name in ("agent", "spawner")))
    await sandbox.remove()
    assert (await of_project(gateway, "paid")).spent_usd == 1.2


async def test_an_agent_that_spends_nothing_stops_when_others_of_its_project_have_spent_all(gateway: Gateway) -> None:
    waits, spends = await made(gateway, "shared", "shared-1"), await made(gateway, "shared", "shared-2")
    waiting = await begin(waits, [{"say": "here"}], keep_open=True)
    await begin(spends, [{"spend": {"cost_usd": 1.0}}])
    assert (await waiting.wait()).reason.startswith("budget: quota: agents of project 'shared' have spent 1.0000 of 1")


async def test_the_table_has_everybody(gateway: Gateway) -> None:
    await made(gateway, "shown", "shown-1")
    lines = {(line.kind, line.name): line async for line in every_quota(gateway.cloche.bus, GetQuotas(limit=1))}
    assert {(Kind.PROJECT, "one"), (Kind.PROJECT, "paid"), (Kind.PRINCIPAL, "bob")} <= set(lines)
    said = await typed(gateway, "quotas", "--project", "shown")
    assert said.out.decode().splitlines()[1].split()[:5] == ["project", "shown", "1", "of", "1"]
    shown = await typed(gateway, "quotas", "--json")
    decoded = [msgspec.json.decode(line, type=QuotaUse) for line in shown.out.splitlines()]
    assert {(line.kind, line.name): line for line in decoded} == lines


async def test_an_admin_sees_all_and_anybody_else_their_own(gateway: Gateway) -> None:
    async def seen(role: Role) -> list[tuple[str, str]]:
        async with gateway.client(gateway.token(role, subject="bob")) as client:
            answer: httpx.Response = await client.get("/api/v1/quotas")
            assert answer.status_code == 200, answer.text
            return [(line["kind"], line["name"]) for line in answer.json()["quotas"]]

    assert await seen(Role.VIEWER) == await seen(Role.OPERATOR) == [("principal", "bob")]
    assert ("project", "one") in await seen(Role.ADMIN)
