"""The connections of a node are enough for each of its sandboxes, whatever another one takes."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from infra.proxy import Limits
from services.egress.sharing import DESCRIPTORS_EACH, SCARCE, Connections, SharingProxy
from tests.bus.servers import until
from tests.proxy.gate import FakeGate
from tests.proxy.rig import Client, Rig, listener

ALL = 6


@asynccontextmanager
async def sandbox(connections: Connections) -> AsyncIterator[Rig]:
    gate, listening = FakeGate({}), listener()
    port = listening.getsockname()[1]
    with connections.share() as share:
        async with SharingProxy(gate, Limits(), connections, share) as proxy:
            await proxy.serve(listening)
            yield Rig(proxy, gate, port)


async def is_served(client: Client) -> bool:
    """It is asked for something that nobody may have, and stays connected."""
    await client.say(b"GET http://forbidden.test/ HTTP/1.1\r\nHost: forbidden.test\r\n\r\n")
    return b" 403 " in await client.head()


async def test_a_sandbox_that_takes_what_it_can_leaves_another_its_part() -> None:
    connections = Connections(4 * DESCRIPTORS_EACH * ALL)
    async with sandbox(connections) as greedy, sandbox(connections) as modest, AsyncExitStack() as stack:
        for _ in range(ALL):
            assert await is_served(await stack.enter_async_context(greedy.client()))
        assert (await greedy.said(b"")).startswith(b"HTTP/1.1 503 ")
        for _ in range(ALL // 2):
            assert await is_served(await stack.enter_async_context(modest.client()))
        assert (await modest.said(b"")).startswith(b"HTTP/1.1 503 ")
        assert [each.reason for each in (*greedy.gate.refusals, *modest.gate.refusals)] == [SCARCE, SCARCE]


async def test_what_has_ended_makes_room_again() -> None:
    connections = Connections(4 * DESCRIPTORS_EACH)
    with connections.share() as other:
        async with sandbox(connections) as first:
            async with first.client() as client:
                assert await is_served(client)
                assert connections.have_room(other)
            await until(lambda: not first.proxy._share.connections)  # type: ignore[attr-defined]
            async with first.client() as client:
                assert await is_served(client)
