"""Opening and closing a connection, called off at any moment."""

import asyncio
import os
import signal
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest

from contracts.errors import Unavailable
from infra.bus.connection import Bus, connect
from tests.bus.servers import Server, nats_in, until

MOMENTS = 30
"""Turns of the loop; whatever has not ended by then waits for the server."""
ENDS_S = 20.0
NOBODY = "nats://127.0.0.1:1"


async def _called_off(work: Awaitable[object], turns: int) -> None:
    """After so many turns, unless it has ended by then."""
    doing = asyncio.ensure_future(work)
    for _ in range(turns):
        await asyncio.sleep(0)
    if doing.cancel():
        await asyncio.wait([doing], timeout=ENDS_S)
        assert doing.cancelled()


async def _connect(server: Server) -> Bus:
    return await connect(server.url, "client", server.password("client"), "test")


async def _visit(server: Server) -> None:
    async with await _connect(server):
        pass


async def test_a_close_that_is_called_off_closes_and_stays_called_off(tmp_path: Path) -> None:
    """In the library whoever closes forgets that it was cancelled, and goes on for ever."""
    async with nats_in(tmp_path) as server:
        before = asyncio.all_tasks()
        for turns in range(1, MOMENTS):
            bus = await _connect(server)
            await _called_off(bus.aclose(), turns)
            assert bus.client.is_closed
            await until(lambda: asyncio.all_tasks() <= before)


async def test_a_connection_can_be_closed_at_any_moment_of_its_making_anew(tmp_path: Path) -> None:
    """In the library the attempt that is given up takes the end of the stream from whoever closes."""
    async with nats_in(tmp_path) as server:
        for turns in range(MOMENTS):
            bus = await _connect(server)
            await bus.client.force_reconnect()
            for _ in range(turns):
                await asyncio.sleep(0)
            await bus.aclose()
            assert bus.client.is_closed


async def test_a_connection_that_is_called_off_while_it_opens_leaves_nothing(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        before = asyncio.all_tasks()
        for turns in range(1, MOMENTS):
            await _called_off(_visit(server), turns)
            await until(lambda: asyncio.all_tasks() <= before)


async def test_an_attempt_that_is_not_answered_is_closed_before_the_next(tmp_path: Path) -> None:
    """As with a server that was cut off: who connects to it is let in, and hears nothing."""
    async with nats_in(tmp_path) as server:
        bus = await _connect(server)
        bus.client.options["connect_timeout"] = 0.05
        os.kill(server.embedded.pid, signal.SIGSTOP)
        await bus.client.break_off()
        tried: list[asyncio.StreamWriter] = []

        def has_tried_again() -> bool:
            transport: Any = bus.client._transport
            if transport._io_writer not in tried:
                tried.append(transport._io_writer)
            return len(tried) == 4

        await until(has_tried_again)
        assert all(writer.is_closing() for writer in tried[:-1])
        os.kill(server.embedded.pid, signal.SIGCONT)
        bus.client.options["connect_timeout"] = ENDS_S
        await bus.wait_connected()
        await bus.aclose()


async def test_nobody_goes_on_trying_to_connect_after_it_was_called_off() -> None:
    before = asyncio.all_tasks()
    await _called_off(connect(NOBODY, "client", "", "test", patience_s=ENDS_S), MOMENTS)
    await until(lambda: asyncio.all_tasks() <= before)


async def test_nobody_goes_on_trying_to_connect_when_patience_is_over() -> None:
    before = asyncio.all_tasks()
    with pytest.raises(Unavailable, match="no NATS server answers"):
        await connect(NOBODY, "client", "", "test", patience_s=0.1)
    await until(lambda: asyncio.all_tasks() <= before)
