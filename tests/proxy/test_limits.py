"""What one sandbox cannot take from the others."""

import asyncio

import psutil

from infra.proxy import Limits
from tests.proxy.rig import answering, get, ok, origin, proxying

MB = 1024 * 1024


async def test_more_connections_than_allowed_are_turned_away_and_told() -> None:
    limits = Limits(max_connections=2)
    async with origin(answering(ok())) as port, proxying(limits) as rig, rig.client() as first, rig.client() as second:
        await second.say(b"G")
        await first.say(get(port))
        assert await first.answer() == (200, b"hello")
        assert (await rig.said(b"")).startswith(b"HTTP/1.1 503 ")
        assert [each.reason for each in rig.gate.refusals] == ["more than 2 connections"]


async def test_a_place_is_free_again_when_a_client_has_gone() -> None:
    async with origin(answering(ok())) as port, proxying(Limits(max_connections=1)) as rig:
        for _ in range(5):
            async with rig.client() as client:
                await client.say(get(port, "/", "Connection: close"))
                assert await client.answer() == (200, b"hello")
                assert await client.rest() == b""


async def test_more_requests_than_allowed_are_refused_and_told() -> None:
    limits = Limits(requests_per_s=0.001, burst=3)
    async with origin(answering(*[ok()] * 3)) as port, proxying(limits) as rig:
        async with rig.client() as client:
            for _ in range(3):
                await client.say(get(port))
                assert await client.answer() == (200, b"hello")
            await client.say(get(port))
            head = await client.head()
            assert head.startswith(b"HTTP/1.1 429 ")
            assert b"Retry-After: 1" in head
        assert (await rig.said(b"CONNECT origin.test:80 HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 429 ")
        assert (await rig.said(b"\x05\x01\x00\x05\x01\x00\x01\x7f\x00\x00\x01\x00\x50"))[2:4] == b"\x05\x02"
        assert [(each.wanted is not None, each.reason) for each in rig.gate.refusals] == [
            (True, "too many requests")
        ] * 3
        assert len(rig.gate.asked) == 3


async def test_more_connections_in_a_row_than_allowed_are_refused_unread_and_told() -> None:
    async with proxying(Limits(requests_per_s=0.001, burst=3)) as rig:
        for _ in range(3):
            assert (await rig.said(b"nonsense\r\n\r\n")).startswith(b"HTTP/1.1 400 ")
        async with rig.client() as client:
            client.writer.write_eof()
            assert (await client.rest()).startswith(b"HTTP/1.1 429 ")
        reasons = [each.reason for each in rig.gate.refusals]
        assert reasons == ["not a request line"] * 3 + ["too many connections one after another"]


async def test_a_head_that_is_said_too_slowly_is_refused() -> None:
    async with proxying(Limits(head_timeout_s=0.3)) as rig, rig.client() as client:
        await client.say(b"GET http://origin.test/ HTTP/1.1\r\nX: ")

        async def drip() -> None:
            while True:
                await client.say(b"y")
                await asyncio.sleep(0.01)

        dripping = asyncio.ensure_future(drip())
        assert (await client.head()).startswith(b"HTTP/1.1 408 ")
        dripping.cancel()
        [refusal] = rig.gate.refusals
        assert refusal.wanted is None
        assert refusal.reason == "the request took longer than 0.3 s"
        assert refusal.raw.startswith("GET http://origin.test/ HTTP/1.1")


async def test_a_kept_connection_without_a_request_is_closed_without_a_word() -> None:
    async with proxying(Limits(idle_timeout_s=0.2)) as rig:
        assert await rig.said(b"") == b""
        assert rig.gate.refusals == []


async def test_a_head_that_is_too_large_is_refused_before_it_ends() -> None:
    async with proxying() as rig:
        said = await rig.said(b"GET http://origin.test/ HTTP/1.1\r\nX: " + b"y" * 70_000)
        assert said.startswith(b"HTTP/1.1 431 ")
        assert len(rig.gate.refusals) == 1
        assert len(rig.gate.refusals[0].raw) <= 200


async def test_many_hostile_clients_cost_little() -> None:
    """Each says much and reads nothing."""
    limits = Limits(max_connections=64)
    async with proxying(limits) as rig:
        rig.gate.open.clear()
        request = get(80) + b"x" * 4 * MB
        clients = [await asyncio.open_connection("127.0.0.1", rig.port) for _ in range(64)]
        before = psutil.Process().memory_info().rss
        for _, writer in clients:
            writer.write(request)
        del request
        while len(rig.gate.asked) < 64:
            rig.gate.arrived.clear()
            await rig.gate.arrived.wait()
        # What the writers hold is the test's own; each connection of the proxy holds less than a megabyte.
        own = sum(writer.transport.get_write_buffer_size() for _, writer in clients)
        assert psutil.Process().memory_info().rss - before - own < 64 * MB
        for _, writer in clients:
            writer.transport.abort()
