"""One copy becomes three in place, and then any one server may go."""

import asyncio
from pathlib import Path

from contracts.streams import Limits
from infra.bus.out_stream import OutStream, Right
from infra.bus.provision import plan, wanted
from infra.bus.publisher import Expect, append
from infra.bus.reader import last, read
from tests.bus.servers import until
from tests.cluster.servers import NAMES, READY_S, Cluster, cluster_in

SUBJECT = "cloche.log.sb.command.output"


async def _ids(cluster: Cluster) -> list[str]:
    """As any one of the servers tells it."""
    client = await cluster.connect("client")
    try:
        return [entry.msg_id async for entry in read(client, [SUBJECT], follow=False)]
    finally:
        await client.aclose()


async def test_copies_are_raised_in_place_and_nothing_is_lost_with_any_one_server(tmp_path: Path) -> None:
    async with cluster_in(tmp_path, limits=Limits(replicas=1)) as cluster:
        admin, executor = await cluster.connect("admin"), await cluster.connect("executor")
        client = await cluster.connect("client")
        wrote = [f"m{number}" for number in range(20)]
        for each in wrote:
            await append(executor, SUBJECT, b"{}", each, timeout_s=READY_S)
        order = "cloche.cmd.local.sb.command.run"
        await append(client, order, b"{}", "order", stream="CLOCHE_COMMANDS", timeout_s=READY_S)
        vitals = (await admin.api("STREAM.INFO.CLOCHE_VITALS"))["state"]["last_seq"]
        await cluster.provision(Limits(replicas=3))
        assert await plan(admin, wanted(Limits(replicas=3), ["local"])) == []
        assert (await admin.api("STREAM.INFO.CLOCHE_VITALS"))["state"]["last_seq"] >= vitals
        waiting = await admin.api("CONSUMER.INFO.CLOCHE_COMMANDS.executor-local")
        assert waiting["num_pending"] == 1
        for name in NAMES:
            cluster.servers[name].kill()
            await append(executor, SUBJECT, b"{}", f"without {name}", timeout_s=READY_S)
            wrote.append(f"without {name}")
            assert await _ids(cluster) == wrote
            cluster.servers[name].start()
            await cluster.whole(admin)
        assert await _ids(cluster) == wrote


async def test_a_writer_under_a_guard_keeps_its_order_while_copies_are_raised(tmp_path: Path) -> None:
    async with cluster_in(tmp_path, limits=Limits(replicas=1)) as cluster:
        executor, told = await cluster.connect("executor"), "cloche.log.sb.command.*.e"
        sent: list[str] = []

        async def right() -> Right:
            newest = await last(executor, told)
            owner = Expect("cloche.log.sb.sandbox.recovering", 0)
            return Right(owner, Expect(told, newest.seq if newest else 0))

        async def write() -> None:
            async with OutStream(executor, right=await right(), renew=right) as out:
                while True:
                    await out.send("cloche.log.sb.command.output.e", b"{}", f"w{len(sent)}")
                    sent.append(f"w{len(sent)}")

        writing = asyncio.create_task(write())
        await until(lambda: len(sent) > 20, seconds=READY_S)
        await cluster.provision(Limits(replicas=3))
        enough = len(sent) + 20
        await until(lambda: len(sent) > enough, seconds=READY_S)
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        client = await cluster.connect("client")
        found = [entry.msg_id async for entry in read(client, [told], follow=False)]
        assert found[: len(sent) - 1] == sent[: len(found)][: len(sent) - 1]
        assert len(found) >= len(sent) - 1
