"""Two connections made one: whatever comes on either goes out on the other."""

import asyncio

from infra.proxy.connection import Connection, Phase
from infra.proxy.wire import Wire


async def join(client: Connection, upstream: Wire) -> None:
    """Until both sides have ended, each in its own time, or one is lost."""
    over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def look() -> None:
        if (client.lost or upstream.lost or (client.eof and upstream.eof)) and not over.done():
            over.set_result(None)

    client.enter(Phase.JOINED)
    client.on_ended = upstream.on_ended = look
    try:
        client.pour_into(upstream)
        upstream.pour_into(client)
        look()
        await over
    finally:
        client.on_ended = upstream.on_ended = None
        client.stop_pouring()
        upstream.stop_pouring()
    await upstream.flush()
    await client.flush()
