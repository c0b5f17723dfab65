"""Connections that are kept for another request."""

import asyncio

from infra.proxy.upstream import Place, Upstreams
from tests.proxy.rig import origin


async def test_a_kept_connection_is_seen_to_be_closed_also_where_reading_had_stopped() -> None:
    go_on = asyncio.Event()

    async def close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await go_on.wait()
        writer.close()
        await reader.read()

    async with origin(close) as port:
        upstreams = Upstreams(10.0)
        place = Place("origin.test", "127.0.0.1", port)
        wire = await upstreams.dial(place)
        ended = asyncio.Event()
        wire.on_ended = ended.set
        wire.pause()
        upstreams.keep(place, wire)
        go_on.set()
        await ended.wait()
        assert upstreams.kept(place, repeatable=False) is None
        upstreams.close()
