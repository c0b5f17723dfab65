"""SIGKILL of egress under load: whatever left is on the record, and nothing that should not."""

import asyncio
from pathlib import Path

from contracts.events.network import NetworkAllowed, NetworkDenied
from infra.client.network import Told
from infra.client.sandbox import Sandbox
from services.egress.leftovers import DIED
from tests.egress.hello import hello
from tests.egress.settings import write_settings
from tests.services.node import eventually, node_in

AT_ONCE = 8
LOAD = """
import http.client, os, sys, threading, time
port, count = int(sys.argv[1]), int(sys.argv[2])
def work(worker):
    number = 0
    while not os.path.exists("stop"):
        number += 1
        host = "evil.test" if number % 5 == 0 else "good.test"
        try:
            proxy = http.client.HTTPConnection("127.0.0.1", 3128, timeout=10)
            proxy.request("GET", f"http://{host}:{port}/{worker}-{number}")
            proxy.getresponse().read()
        except (OSError, http.client.HTTPException):
            time.sleep(0.05)
        finally:
            proxy.close()
threads = [threading.Thread(target=work, args=(worker,)) for worker in range(count)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""


async def test_everything_that_left_is_on_the_record_once_though_egress_is_killed(tmp_path: Path) -> None:
    with hello() as server:
        write_settings(tmp_path, {"good.test": server.address, "evil.test": server.address})
        async with node_in(tmp_path) as (node, cloche):
            network = {"allowed_hosts": ["good.test"], "allowed_ports": [server.port]}
            sandbox = await cloche.create({"network": network})
            load = await sandbox.start(["python3", "-c", LOAD, str(server.port), str(AT_ONCE)])
            await eventually(lambda: len(server.paths) > 200)
            await node.restart("egress")
            before = len(server.paths)
            await eventually(lambda: len(server.paths) > before + 50)
            await sandbox.run(["touch", "stop"])
            assert (await load.wait()).exit_code == 0
            told = await _told(sandbox, set(server.paths))
    allowed = [fact for fact in told if isinstance(fact, NetworkAllowed)]
    assert {fact.host for fact in allowed} == {"good.test"}
    paths = [fact.path for fact in allowed]
    assert len(paths) == len(set(paths))
    assert set(server.paths) <= set(paths)
    assert not any(path.endswith(("0", "5")) for path in server.paths)
    assert any(fact.error == DIED for fact in allowed)
    assert {fact.host for fact in told if isinstance(fact, NetworkDenied)} == {"evil.test"}


async def _told(sandbox: Sandbox, seen: set[str]) -> list[Told]:
    """What the log tells, once it tells of everything that the server has seen."""
    while True:
        told = [each.fact async for each in sandbox.net.requests()]
        if seen <= {fact.path for fact in told if isinstance(fact, NetworkAllowed)}:
            return told
        await asyncio.sleep(0.1)
