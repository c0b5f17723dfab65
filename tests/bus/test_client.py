"""The repairs to the library's client, each of which it lacks."""

import asyncio
import contextlib
import os
import signal
from pathlib import Path

import pytest
from nats import errors

from infra.bus.connection import Bus
from tests.bus.servers import Server, nats_in, stored, until

CHUNK = bytes(64 * 1024)


async def _stuff(bus: Bus, count: int) -> None:
    with contextlib.suppress(errors.Error):
        for _ in range(count):
            if not bus.is_connected:
                return
            await bus.client.publish("cloche.log.sb.command.output", CHUNK)
            await asyncio.sleep(0)


async def _reconnected(server: Server, bus: Bus, epoch: int) -> None:
    await until(lambda: bus.epoch > epoch)
    await bus.client.flush()


async def test_what_was_not_sent_before_a_disconnect_is_not_sent_after_it(tmp_path: Path) -> None:
    """Else it would overtake the repetition of what was lost before it."""
    async with nats_in(tmp_path) as server:
        bus, admin = await server.connect("executor"), await server.connect("admin")
        epoch = bus.epoch
        os.kill(server.embedded.pid, signal.SIGSTOP)
        stuffing = asyncio.create_task(_stuff(bus, 300))
        await until(lambda: bus.client.pending_data_size > 4 * len(CHUNK))
        await server.kill()
        await _reconnected(server, bus, epoch)
        stuffing.cancel()
        await asyncio.gather(stuffing, return_exceptions=True)
        await admin.wait_connected()
        assert await stored(admin) == 0


async def test_nothing_is_kept_for_later_while_there_is_no_connection(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        bus, admin = await server.connect("executor"), await server.connect("admin")
        watching = server.embedded._watching
        assert watching
        watching.cancel()
        epoch = bus.epoch
        await server.kill()
        await until(lambda: not bus.client.is_connected)
        with pytest.raises(errors.ConnectionReconnectingError):
            await bus.client.publish("cloche.log.sb.command.output", b"")
        await server.embedded.start()
        await _reconnected(server, bus, epoch)
        await admin.wait_connected()
        assert await stored(admin) == 0


async def test_a_cancelled_flush_does_no_harm(tmp_path: Path) -> None:
    """In the library the PONG of a cancelled flush ends the task that reads."""
    async with nats_in(tmp_path) as server:
        bus = await server.connect("client")
        os.kill(server.embedded.pid, signal.SIGSTOP)
        flushing = asyncio.create_task(bus.client.flush())
        await asyncio.wait([flushing], timeout=0.05)
        flushing.cancel()
        await asyncio.gather(flushing, return_exceptions=True)
        os.kill(server.embedded.pid, signal.SIGCONT)
        await bus.client.flush()
        assert (await bus.api("STREAM.INFO.CLOCHE_LOG"))["state"]["messages"] == 0


async def test_a_publish_that_waits_for_the_socket_can_be_cancelled(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        bus = await server.connect("executor")
        os.kill(server.embedded.pid, signal.SIGSTOP)
        stuffing = asyncio.create_task(_stuff(bus, 1_000_000))
        await until(lambda: bus.client.pending_data_size > 8 * 1024 * 1024)
        stuffing.cancel()
        done, _ = await asyncio.wait([stuffing], timeout=10)
        os.kill(server.embedded.pid, signal.SIGCONT)
        assert done
        assert stuffing.cancelled()


async def test_a_flush_comes_after_what_was_subscribed_before_it(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        bus, client = await server.connect("replay"), await server.connect("client")
        for number in range(50):
            heard = asyncio.Event()
            await bus.tap(f"cloche.rpc.state.v{number}", lambda *_, heard=heard: heard.set())
            await client.client.publish(f"cloche.rpc.state.v{number}", b"")
            async with asyncio.timeout(10):
                await heard.wait()


async def test_an_error_that_the_server_reports_leads_to_a_reconnect(tmp_path: Path) -> None:
    """In the library it closes the connection for good."""
    async with nats_in(tmp_path) as server:
        bus = await server.connect("client")
        epoch = bus.epoch
        transport = bus.client._transport
        assert transport
        transport.write(b"NONSENSE\r\n")
        await _reconnected(server, bus, epoch)
        assert (await bus.api("STREAM.INFO.CLOCHE_LOG"))["state"]["messages"] == 0
