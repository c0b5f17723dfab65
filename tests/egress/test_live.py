"""The way out while things happen: policies change, and egress is killed under load."""

import asyncio
import json
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

import pytest
import pytest_asyncio

from contracts.events.network import NetworkAllowed, NetworkDenied
from infra.access import open_as
from infra.bus.connection import Bus
from infra.client import Cloche, Execution, Sandbox
from infra.client.network import Told
from services.egress.leftovers import DIED
from tests.egress.clients import asks, change, told, until_nobody, until_told
from tests.egress.hello import Hello, hello
from tests.egress.settings import write_settings
from tests.services.node import Node, eventually, node_in

pytestmark = [pytest.mark.timeout(180), pytest.mark.asyncio(loop_scope="module")]

ALLOWED, FORBIDDEN, WEB = "echo.test", "forbidden.test", "web.test"
KILLS = 3
AT_ONCE = 8


class Echo(NamedTuple):
    address: str
    port: int
    connections: list[object]


class Stage(NamedTuple):
    node: Node
    cloche: Cloche
    bus: Bus
    echo: Echo
    forbidden: Echo
    web: Hello


@asynccontextmanager
async def echoing(port: int = 0) -> AsyncIterator[Echo]:
    connections: list[object] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer.get_extra_info("peername"))
        try:
            while data := await reader.read(65_536):
                writer.write(data)
        except ConnectionError:
            pass
        finally:
            writer.close()

    address = f"127.7.{secrets.randbelow(256)}.{secrets.randbelow(254) + 1}"
    async with await asyncio.start_server(answer, address, port) as server:
        yield Echo(address, server.sockets[0].getsockname()[1], connections)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    data = tmp_path_factory.mktemp("node")
    with hello() as web:
        async with echoing() as echo, echoing(echo.port) as forbidden:
            write_settings(data, {ALLOWED: echo.address, FORBIDDEN: forbidden.address, WEB: web.address})
            async with node_in(data) as (node, cloche), open_as(node.settings, "client") as bus:
                yield Stage(node, cloche, bus, echo, forbidden, web)


def network(stage: Stage) -> dict[str, object]:
    return {"allowed_hosts": [ALLOWED], "allowed_ports": [stage.echo.port]}


TUNNEL = """
import socket, sys
with socket.create_connection(("127.0.0.1", 3128), 10) as tunnel:
    tunnel.sendall(f"CONNECT {sys.argv[1]} HTTP/1.1\\r\\nHost: {sys.argv[1]}\\r\\n\\r\\n".encode())
    assert b" 200 " in tunnel.recv(4096)
    tunnel.sendall(b"\\x00nock")
    assert tunnel.recv(5) == b"\\x00nock"
    print("open", flush=True)
    tunnel.settimeout(60)
    try:
        assert tunnel.recv(1) == b""
    except ConnectionResetError:
        pass
    print("cut")
"""


async def open_tunnel(stage: Stage, execution: Execution) -> None:
    async for chunk in execution.output():
        assert chunk.data == b"open\n"
        return
    raise AssertionError((await execution.wait()).stderr)


async def test_a_tunnel_is_cut_when_its_host_is_no_longer_allowed_and_when_there_is_no_way_out(stage: Stage) -> None:
    sandbox = await stage.cloche.create({"network": network(stage)})
    target = f"{ALLOWED}:{stage.echo.port}"
    withdrawals: tuple[dict[str, object], ...] = ({"allowed_hosts": []}, {"mode": "none"})
    for withdrawal in withdrawals:
        tunnel = await sandbox.start(["python3", "-c", TUNNEL, target])
        await open_tunnel(stage, tunnel)
        await change(stage.bus, sandbox, withdrawal)
        assert (await tunnel.wait()).stdout == b"open\ncut\n"
        if "mode" in withdrawal:
            await until_nobody(sandbox)
        else:
            assert await asks(sandbox, host=target) == "HTTP/1.1 403"
        attached = len(await told(sandbox, "network.attached"))
        await change(stage.bus, sandbox, {**network(stage), "mode": "restricted"})
        if "mode" in withdrawal:
            await until_told(sandbox, "network.attached", times=attached + 1)
    again = await sandbox.start(["python3", "-c", TUNNEL, target])
    await open_tunnel(stage, again)
    await sandbox.remove()


LOAD = """
import collections, json, select, socket, sys
counts = collections.Counter()
targets = sys.argv[1:]
turn = 0
while not select.select([sys.stdin], [], [], 0)[0]:
    target = targets[turn % len(targets)]
    turn += 1
    try:
        with socket.create_connection(("127.0.0.1", 3128), 10) as proxy:
            proxy.settimeout(10)
            proxy.sendall(f"CONNECT {target} HTTP/1.1\\r\\nHost: {target}\\r\\n\\r\\n".encode())
            status = proxy.recv(4096).split(b" ")[1].decode()
            if status == "200":
                proxy.sendall(b"\\x00nock" * 1000)
                status = "200" if proxy.recv(5) == b"\\x00nock" else "lost"
    except (OSError, IndexError):
        status = "lost"
    counts[f"{target} {status}"] += 1
    if turn == 20:
        print("begun", flush=True)
print(json.dumps(counts))
"""


async def test_an_egress_that_is_killed_under_load_lets_nothing_through_and_is_back_without_touching_the_sandbox(
    stage: Stage,
) -> None:
    sandbox = await stage.cloche.create({"network": network(stage)})
    allowed, forbidden = f"{ALLOWED}:{stage.echo.port}", f"{FORBIDDEN}:{stage.forbidden.port}"
    load = await sandbox.start(["python3", "-c", LOAD, allowed, forbidden], stdin=True)
    async for chunk in load.output():
        assert chunk.data == b"begun\n"
        break
    for number in range(KILLS):
        before = len(stage.echo.connections)
        await stage.node.restart("egress")
        await until_told(sandbox, "network.attached", times=2 + number)
        async with asyncio.timeout(30):
            while len(stage.echo.connections) <= before:
                await asyncio.sleep(0.01)
    await load.write(b"enough\n")
    result = await load.wait()
    counts = json.loads(result.stdout.decode().partition("\n")[2])
    assert counts[f"{allowed} 200"] > 0
    assert counts[f"{forbidden} 403"] > 0
    assert set(counts) <= {f"{allowed} 200", f"{allowed} lost", f"{forbidden} 403", f"{forbidden} lost"}
    assert stage.forbidden.connections == []
    lives = {fact["instance"] for _, fact in await told(sandbox, "network.attached")}
    assert lives == {sandbox.state.instance}
    assert await told(sandbox, "network.unattached", "sandbox.stopped", "sandbox.recovering") == []
    await sandbox.remove()


REQUESTS = """
import http.client, os, sys, threading, time
port, count = int(sys.argv[1]), int(sys.argv[2])
def work(worker):
    number = 0
    while not os.path.exists("stop"):
        number += 1
        host = "evil.test" if number % 5 == 0 else "web.test"
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


async def test_everything_that_left_is_on_the_record_once_though_egress_is_killed(stage: Stage) -> None:
    paths = stage.web.paths
    sandbox = await stage.cloche.create({"network": {"allowed_hosts": [WEB], "allowed_ports": [stage.web.port]}})
    load = await sandbox.start(["python3", "-c", REQUESTS, str(stage.web.port), str(AT_ONCE)])
    await eventually(lambda: len(paths) > 200)
    await stage.node.restart("egress")
    before = len(paths)
    await eventually(lambda: len(paths) > before + 50)
    await sandbox.run(["touch", "stop"])
    assert (await load.wait()).exit_code == 0
    facts = await told_of(sandbox, set(paths))
    allowed = [fact for fact in facts if isinstance(fact, NetworkAllowed)]
    assert {fact.host for fact in allowed} == {WEB}
    assert len(allowed) == len({fact.path for fact in allowed})
    assert not any(path.endswith(("0", "5")) for path in paths)
    assert any(fact.error == DIED for fact in allowed)
    assert {fact.host for fact in facts if isinstance(fact, NetworkDenied)} == {"evil.test"}


async def told_of(sandbox: Sandbox, seen: set[str]) -> list[Told]:
    """What the log tells, once it tells of everything that the server has seen."""
    async with asyncio.timeout(60):
        while True:
            facts = [each.fact async for each in sandbox.net.requests()]
            if seen <= {fact.path for fact in facts if isinstance(fact, NetworkAllowed)}:
                return facts
            await asyncio.sleep(0.1)
