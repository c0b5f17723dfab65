"""A sandbox's life through the bus: every order idempotent, every refusal with a reason."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from contracts.errors import Invalid, SandboxInvalidState, SandboxNotFound
from contracts.queries import GetTerminal, ListEvents, ListSandboxes
from contracts.state import SandboxState, Status
from infra.client import Cloche
from tests.services.node import node_in

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cloche(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cloche]:
    data: Path = tmp_path_factory.mktemp("node")
    async with node_in(data) as (_, cloche):
        yield cloche


async def kinds(cloche: Cloche, sandbox_id: str) -> list[str]:
    sandbox = await cloche.sandbox(sandbox_id)
    return [event.head.type async for event in sandbox.events(types=["sandbox"])]


async def test_a_whole_life_is_on_the_record(cloche: Cloche) -> None:
    sandbox = await cloche.create({"labels": {"team": "core"}}, id="life")
    await sandbox.run("echo kept > file")
    await sandbox.pause()
    await sandbox.pause()
    with pytest.raises(SandboxInvalidState, match="paused"):
        await sandbox.run("true")
    await sandbox.resume()
    await sandbox.stop(grace_ms=1000)
    with pytest.raises(SandboxInvalidState, match="stopped"):
        await sandbox.run("true")
    await sandbox.boot()
    assert (await sandbox.run("cat file")).stdout == b"kept\n"
    await sandbox.remove()
    await sandbox.remove()
    assert await kinds(cloche, "life") == [
        "sandbox.creating",
        "sandbox.created",
        "sandbox.started",
        "sandbox.paused",
        "sandbox.resumed",
        "sandbox.stopped",
        "sandbox.started",
        "sandbox.removed",
    ]


async def test_a_taken_id_is_refused(cloche: Cloche) -> None:
    await cloche.create(id="taken")
    with pytest.raises(SandboxInvalidState, match="exists already"):
        await cloche.create(id="taken")
    assert await kinds(cloche, "taken") == ["sandbox.creating", "sandbox.created", "sandbox.started"]


async def test_a_bad_specification_names_the_field(cloche: Cloche) -> None:
    with pytest.raises(Invalid, match=r"resources\.memory_mb"):
        await cloche.create({"resources": {"memory_mb": 1}})
    with pytest.raises(Invalid, match="memroy"):
        await cloche.create({"resources": {"memroy": 1}})


async def test_a_tier_that_the_node_lacks_is_refused(tmp_path: Path) -> None:
    async with node_in(tmp_path, DOCKER_HOST="unix:///nobody/listens.sock") as (_, cloche):
        with pytest.raises(Invalid, match="docker"):
            await cloche.create({"isolation": "docker"})


async def test_a_sandbox_that_cannot_be_made_fails_with_the_reason(cloche: Cloche) -> None:
    with pytest.raises(Invalid, match="network"):
        await cloche.create({"network": {"mode": "full"}}, id="doomed")
    assert await kinds(cloche, "doomed") == ["sandbox.creating", "sandbox.failed"]


async def test_an_unknown_sandbox_is_not_found(cloche: Cloche) -> None:
    with pytest.raises(SandboxNotFound):
        await cloche.sandbox("nobody")


async def test_a_hostile_name_is_refused_before_it_is_a_subject(cloche: Cloche) -> None:
    for name in ("*", ">", "a.b", "a b", "", "x" * 65, "a\n"):
        with pytest.raises(Invalid):
            await cloche.create(id=name or " ")


async def test_what_enforces_each_limit_is_told(cloche: Cloche) -> None:
    sandbox = await cloche.create()
    assert set(sandbox.state.enforcement) == {"memory", "cpus", "pids", "disk", "timeout", "network"}
    assert all(sandbox.state.enforcement.values())


async def test_the_read_model_lists_by_filter(cloche: Cloche) -> None:
    made = await cloche.create({"task_id": "t-1", "labels": {"team": "core"}}, id="listed")
    await made.run("true")
    found = await _listed(cloche, ListSandboxes(task_id="t-1", label={"team": "core"}))
    assert [state.sandbox for state in found] == ["listed"]
    assert await _listed(cloche, ListSandboxes(task_id="t-1", label={"team": "other"})) == ()
    assert await _listed(cloche, ListSandboxes(task_id="t-1", status=Status.PAUSED)) == ()


async def _listed(cloche: Cloche, query: ListSandboxes) -> tuple[SandboxState, ...]:
    return (await cloche.sandboxes(query)).sandboxes


async def test_events_are_paged_by_cursor_and_type(cloche: Cloche) -> None:
    sandbox = await cloche.create(id="paged")
    await sandbox.run("echo a; sleep 0.05; echo b")
    seen: list[int] = []
    cursor = 1
    while True:
        page = await cloche.recent_events(ListEvents(sandbox="paged", from_sequence=cursor, limit=2))
        seen += [event.sequence for event in page.events]
        cursor = page.next_sequence
        if not page.more:
            break
    assert seen == [event.sequence async for event in sandbox.events()]
    only = await cloche.recent_events(ListEvents(sandbox="paged", types=("command.started", "sandbox")))
    assert len(only.events) == 4


async def test_recent_terminal_output_is_given_and_cut_at_the_front(cloche: Cloche) -> None:
    sandbox = await cloche.create(id="terminal")
    await sandbox.run("seq 1 30000; sleep 0.05; echo end; echo bad >&2")
    whole = await cloche.terminal(GetTerminal(sandbox="terminal", max_bytes=524_288))
    text = "".join(chunk.data for chunk in whole.chunks if chunk.kind == "output")
    assert text == "".join(f"{number}\n" for number in range(1, 30001)) + "end\n"
    assert not whole.truncated
    tail = await cloche.terminal(GetTerminal(sandbox="terminal", max_bytes=100))
    assert tail.truncated
    assert [chunk.data for chunk in tail.chunks if chunk.kind == "error"] == ["bad\n"]


async def test_questions_that_make_no_sense_get_an_answer(cloche: Cloche) -> None:
    with pytest.raises(SandboxNotFound):
        await cloche.recent_events(ListEvents(sandbox="nobody"))
    for verb, raw in (("nonsense", b"{}"), ("sandboxes", b"\xff\xff"), ("sandboxes", b'{"limit": 0}')):
        reply = await cloche.bus.request(f"cloche.rpc.state.{verb}", raw)
        assert b'"code":"INVALID"' in reply.data
