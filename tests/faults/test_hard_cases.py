"""Crashes and abuses that once broke a promise."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from contracts import codec, subjects
from contracts.events.audit import DeadLetter
from contracts.events.command import CommandLost
from contracts.proof import Proof
from contracts.queries import ListSandboxes
from contracts.streams import COMMANDS_STREAM
from infra.bus import reader
from infra.bus.publisher import append
from infra.client import Cloche, Sandbox
from infra.keeper.client import KeeperClient
from infra.keeper.spool import segments
from services.executor.record import key_of
from tests.services.node import Node, Service, node_in

pytestmark = pytest.mark.asyncio(loop_scope="module")

Running = tuple[Node, Cloche]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    """One for all tests that leave it as it was; each has sandboxes of its own."""
    async with node_in(tmp_path_factory.mktemp("node")) as found:
        yield found


async def proof_of(cloche: Cloche, sandbox: str) -> Proof:
    proof = Proof()
    async for entry in reader.read(cloche.bus, subjects.events_of(sandbox), 1, follow=False):
        proof.feed(entry.seq, codec.decode_head(entry.data))
    return proof


async def until_logged(cloche: Cloche, sandbox: str, exec_id: str, size: int) -> None:
    """Until the log has so many bytes of the command's stdout."""
    scope = subjects.events_of(sandbox, family="command", kind="output", scope=exec_id)
    async for entry in reader.read(cloche.bus, scope, 1, follow=True):
        fact = codec.decode_fact(codec.decode_head(entry.data))
        if getattr(fact, "offset", 0) + getattr(fact, "size", 0) >= size:
            return


async def test_an_executor_goes_on_with_a_record_whose_beginning_is_gone_already(running: Running) -> None:
    size = 90 * 1024 * 1024
    node, cloche = running
    sandbox = await cloche.create()
    script = f"head -c {size} /dev/zero | tr '\\0' x; while [ ! -e go ]; do sleep 0.05; done; echo end"
    execution = await sandbox.start(script)
    await until_logged(cloche, sandbox.id, execution.id, size)
    spool = node.data / "keeper" / "execs" / key_of(sandbox.id, execution.id)
    async with asyncio.timeout(60):
        while segments(spool)[0].start == 0:
            await asyncio.sleep(0.05)
    await node.restart("executor")
    await sandbox.run("touch go")
    result = await execution.wait()
    assert (result.outcome, len(result.stdout), result.stdout[-5:]) == ("completed", size + 4, b"xend\n")
    assert not (await proof_of(cloche, sandbox.id)).summary().findings


async def test_a_paused_sandbox_that_is_flooded_with_signals_does_not_hold_up_another(running: Running) -> None:
    _, cloche = running
    paused, free = await cloche.create(), await cloche.create()
    execution = await paused.start("echo up; sleep 600")
    async for chunk in execution.output():
        assert chunk.data == b"up\n"
        break
    await paused.pause()
    for _ in range(80):
        await execution.signal(10)
    assert (await free.run("echo ok")).stdout == b"ok\n"
    await paused.resume()


async def test_deliveries_that_died_with_the_executor_do_not_count_against_an_order(tmp_path: Path) -> None:
    async with node_in(tmp_path) as (node, cloche):
        sandbox = await cloche.create(id="sb")
        await node.kill_keeper()
        (tmp_path / "keeper" / "keeper.sock").unlink(missing_ok=True)
        os.rename(tmp_path / "keeper" / "execs", tmp_path / "keeper" / "away")
        (tmp_path / "keeper" / "execs").write_text("no keeper can start here")
        execution = await sandbox.start("echo at last")
        for _ in range(7):
            await node.services["executor"].kill()
            service = node.services["executor"]
            starting = asyncio.create_task(service.start())
            await asyncio.sleep(1.0)
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
            await service.kill()
        (tmp_path / "keeper" / "execs").unlink()
        os.rename(tmp_path / "keeper" / "away", tmp_path / "keeper" / "execs")
        await node.services["executor"].start()
        assert (await execution.wait()).stdout == b"at last\n"


async def test_huge_command_lines_do_not_break_the_read_model(running: Running) -> None:
    node, cloche = running
    sandbox = await cloche.create()
    for _ in range(4):
        assert (await sandbox.run(["true", *("x" * 100_000 for _ in range(6))])).exit_code == 0
    await node.restart("replay")
    listed = await cloche.sandboxes(ListSandboxes())
    assert sandbox.id in {each.sandbox for each in listed.sandboxes}


async def test_a_record_that_lost_its_tail_to_a_power_cut_still_ends_once(running: Running) -> None:
    node, cloche = running
    sandbox = await cloche.create()
    execution = await sandbox.start("for i in 1 2 3 4 5 6; do echo $i; sleep 0.05; done; sleep 600")
    await until_logged(cloche, sandbox.id, execution.id, 12)
    await node.services["executor"].kill()
    await node.kill_keeper()
    (segment,) = segments(node.data / "keeper" / "execs" / key_of(sandbox.id, execution.id))
    os.truncate(segment.path, segment.path.stat().st_size // 3)
    await node.services["executor"].start()
    result = await execution.wait()
    assert (result.outcome, result.stdout) == ("lost", b"1\n2\n3\n4\n5\n6\n")
    lost = [event async for event in sandbox.events(types=["command.lost"])]
    fact = codec.decode_fact(lost[0].head)
    assert isinstance(fact, CommandLost)
    assert fact.totals.stdout == 12
    summary = (await proof_of(cloche, sandbox.id)).summary()
    assert (summary.findings, summary.open) == ((), ())


async def test_a_reason_longer_than_a_message_is_cut_and_not_repeated_for_ever(running: Running) -> None:
    _, cloche = running
    raw = b'{"id":"long","type":"command.run","data":{"shell":"true","asker":"%s"}}' % (b"A" * 1_000_000)
    subject = subjects.command("local", "sb", "command", "run")
    await append(cloche.bus, subject, raw, "long", stream=COMMANDS_STREAM)
    scope = subjects.events_of("sb", family=subjects.DEAD_LETTER, scope="long")
    async with asyncio.timeout(20):
        async for entry in reader.read(cloche.bus, scope, 1, follow=True):
            letter = codec.decode_fact(codec.decode_head(entry.data))
            assert isinstance(letter, DeadLetter)
            assert (letter.truncated, letter.size) == (True, len(raw))
            assert len(letter.reason.message) <= 2000
            return


async def test_who_comes_back_to_a_command_writes_on_at_the_end_of_its_input(running: Running) -> None:
    _, cloche = running
    sandbox = await cloche.create()
    execution = await sandbox.start(["cat"], stdin=True)
    await execution.write(b"first\n")
    async for chunk in execution.output():
        assert chunk.data == b"first\n"
        break
    again = (await cloche.sandbox(sandbox.id)).execution(execution.id)
    await again.write(b"second\n")
    await again.close_stdin()
    assert (await again.wait()).stdout == b"first\nsecond\n"


async def test_many_records_are_found_again_one_by_one(running: Running) -> None:
    node, cloche = running
    sandbox = await cloche.create()
    long = ["sh", "-c", "sleep 600", *("y" * 100_000 for _ in range(5))]
    executions = [await sandbox.start(long) for _ in range(20)]
    for execution in executions:
        await _started(cloche, sandbox, execution.id)
    await node.restart("executor")
    async with await KeeperClient.connect(node.data) as keeper:
        found = {each.exec for each in await keeper.list()}
    assert {key_of(sandbox.id, each.id) for each in executions} <= found
    for execution in executions:
        await execution.cancel(signal=9)
    assert {(await execution.wait()).outcome for execution in executions} == {"cancelled"}


async def _started(cloche: Cloche, sandbox: Sandbox, exec_id: str) -> None:
    async for _ in reader.read(cloche.bus, subjects.events_of(sandbox.id, scope=exec_id), 1, follow=True):
        return


async def test_a_second_executor_on_a_node_is_refused(running: Running) -> None:
    node, _ = running
    second = Service("executor", node.data, {})
    starting = asyncio.create_task(second.start())
    async with asyncio.timeout(20):
        while not any("another executor is running" in line for line in second.said):
            await asyncio.sleep(0.05)
    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)
    await second.kill()
