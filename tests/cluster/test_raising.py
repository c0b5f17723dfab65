"""One copy becomes three in place, and then any one server may go."""

from pathlib import Path

from contracts.streams import Limits
from infra.bus.provision import plan, wanted
from infra.bus.publisher import append
from infra.bus.reader import read
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
            cluster.kill(name)
            await append(executor, SUBJECT, b"{}", f"without {name}", timeout_s=READY_S)
            wrote.append(f"without {name}")
            assert await _ids(cluster) == wrote
            cluster.start(name)
            await cluster.whole(Limits(replicas=3))
        assert await _ids(cluster) == wrote
