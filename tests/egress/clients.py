"""Using a sandbox's way out from inside, and reading in the log what became of it."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from contracts.commands.sandbox import ChangeNetwork
from contracts.message import EventHead
from infra.bus.connection import Bus
from infra.client import Sandbox
from infra.client.orders import publish, raise_if_given_up

PATIENCE_S = 30.0

ASK = """
import socket, sys
port, host = int(sys.argv[1]), sys.argv[2]
try:
    with socket.create_connection(("127.0.0.1", port), 10) as proxy:
        proxy.sendall(f"GET http://{host}/ HTTP/1.1\\r\\nHost: {host}\\r\\nConnection: close\\r\\n\\r\\n".encode())
        print(proxy.recv(12).decode())
except ConnectionRefusedError:
    print("nobody")
"""


async def asks(sandbox: Sandbox, port: int = 3128, host: str = "denied.example") -> str:
    """`HTTP/1.1 403` from a proxy that is there, for what it does not allow; `nobody` where none listens."""
    result = await sandbox.run(["python3", "-c", ASK, str(port), host])
    assert result.exit_code == 0, result.stderr
    return result.stdout.decode().strip()


async def asks_plainly(sandbox: Sandbox) -> str:
    """The same, where there is no Python."""
    request = r"GET http://denied.example/ HTTP/1.1\r\nHost: denied.example\r\nConnection: close\r\n\r\n"
    script = f"printf '{request}' | nc 127.0.0.1 3128 | head -c 12 || true"
    return (await sandbox.run(script)).stdout.decode().strip() or "nobody"


async def told(sandbox: Sandbox, *kinds: str) -> list[tuple[str, dict[str, Any]]]:
    """Its events of these kinds so far."""
    events = [event.head async for event in sandbox.events(types=["network", "sandbox"])]
    return [(head.type, msgspec.json.decode(head.data)) for head in events if head.type in kinds]


async def until_told(sandbox: Sandbox, kind: str, times: int = 1) -> dict[str, Any]:
    """Waits for the nth event of that kind."""
    async with asyncio.timeout(PATIENCE_S):
        async for event in sandbox.events(types=["network", "sandbox"], follow=True):
            times -= event.head.type == kind
            if times == 0:
                found: dict[str, Any] = msgspec.json.decode(event.head.data)
                return found
    raise AssertionError(f"no {kind}")


async def until_nobody(sandbox: Sandbox) -> None:
    """For the end of a listener, which no event tells."""
    async with asyncio.timeout(PATIENCE_S):
        while await asks(sandbox) != "nobody":
            pass


async def change(bus: Bus, sandbox: Sandbox, network: dict[str, Any], id: str | None = None) -> None:  # noqa: A002
    """Returns once it is in the log. Raises the reason when it is refused."""
    order = ChangeNetwork(network=msgspec.Raw(msgspec.json.encode(network)))
    command = await publish(bus, "local", sandbox.id, order, id=id)

    def is_answer(head: EventHead) -> bool:
        raise_if_given_up(head, command)
        return head.type == "sandbox.network_changed" and head.correlationid == command

    await _first(sandbox, is_answer)


async def _first(sandbox: Sandbox, wanted: Callable[[EventHead], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        async for event in sandbox.events(follow=True):
            if wanted(event.head):
                return
