"""Whoever does not read is told where it was, and let go of; nobody else notices."""

import asyncio
import select
from pathlib import Path

import msgspec
import psutil

from contracts.access import Role
from tests.gateway.live.client import following
from tests.gateway.live.raw import CLOSE, TEXT, RawSocket, raw_socket
from tests.gateway.rig import Gateway, gateway_in
from tests.services.node import eventually

PRINTED = 24 << 20
MB = 1 << 20
SETTINGS = "[gateway]\nslow_s = 1.0\n"


def _impatient(data: Path) -> Path:
    (data / "cloche.toml").write_text(SETTINGS)
    return data


def _let_go(gateway: Gateway) -> bool:
    return any("takes nothing" in line for line in gateway.service.said)


async def _bytes_followed(gateway: Gateway, sandbox: str) -> int:
    """Of the output that one follower is told, all offsets checked."""
    at = 0
    async with following(gateway, sandbox, types="command") as follower:
        while True:
            told = (await follower.until("event"))["data"]
            if told["type"] == "command.completed":
                return at
            if told["type"] == "command.output":
                assert told["data"]["offset"] == at
                at += len(told["data"]["data"].encode())


async def _print_much(gateway: Gateway, sandbox: str) -> None:
    found = await gateway.cloche.sandbox(sandbox)
    await found.run(f"head -c {PRINTED} /dev/zero | tr '\\0' x")


async def test_one_that_never_reads_is_told_its_last_sequence_while_others_miss_nothing(tmp_path: Path) -> None:
    async with gateway_in(_impatient(tmp_path)) as gateway:
        sandbox = (await gateway.cloche.create()).id
        process = psutil.Process(gateway.service.pid)
        async with raw_socket(gateway, f"/ws/sandboxes/{sandbox}?from=1", receive_buffer=4096) as stuck:
            assert b" 101 " in await stuck.head()
            before = process.memory_info().rss
            others = [asyncio.create_task(_bytes_followed(gateway, sandbox)) for _ in range(3)]
            await _until_they_follow(gateway, others)
            end = asyncio.create_task(_expect_the_end(gateway, stuck))
            await _print_much(gateway, sandbox)
            assert await asyncio.gather(*others) == [PRINTED] * 3
            await end
            assert process.memory_info().rss - before < 60 * MB
        await _expect_figures(gateway)


async def _expect_figures(gateway: Gateway) -> None:
    async with gateway.client(gateway.token(Role.ADMIN)) as client:
        figures = (await client.get("/metrics")).text.splitlines()
    assert "cloche_gateway_slow_clients_dropped_total 1.0" in figures
    lag = next(line for line in figures if line.startswith("cloche_gateway_feed_lag_seconds "))
    assert 0 < float(lag.split()[-1]) < 60


async def _until_they_follow(gateway: Gateway, others: list[asyncio.Task[int]]) -> None:
    process = psutil.Process(gateway.service.pid)

    def connections() -> int:
        return sum(
            each.status == "ESTABLISHED" and each.laddr.port == gateway.port for each in process.net_connections()
        )

    await eventually(lambda: connections() > len(others))


async def _expect_the_end(gateway: Gateway, stuck: RawSocket) -> None:
    """Read at once when it is told: who does not even read that is cut off."""
    await eventually(lambda: _let_go(gateway))
    frames = [frame async for frame in stuck.frames()]
    *events, problem = [msgspec.json.decode(frame.data) for frame in frames if frame.opcode == TEXT]
    last = events[-1]["sequence"]
    assert (problem["type"], problem["code"], problem["sequence"]) == ("error", "SLOW_CLIENT", last)
    assert frames[-1].opcode == CLOSE
    assert frames[-1].code == 4008
    assert frames[-1].data[2:].decode() == str(last)


async def test_one_that_does_not_even_read_that_it_is_let_go_of_holds_nothing(tmp_path: Path) -> None:
    async with gateway_in(_impatient(tmp_path)) as gateway:
        sandbox = (await gateway.cloche.create()).id
        async with raw_socket(gateway, f"/ws/sandboxes/{sandbox}?from=1", receive_buffer=4096) as stuck:
            assert b" 101 " in await stuck.head()
            await _print_much(gateway, sandbox)
            poll = select.poll()
            poll.register(stuck.socket, select.POLLERR | select.POLLHUP)
            await eventually(lambda: bool(poll.poll(0)))


async def test_one_that_reads_an_event_stream_too_slowly_is_cut_off(tmp_path: Path) -> None:
    async with gateway_in(_impatient(tmp_path)) as gateway:
        sandbox = (await gateway.cloche.create()).id
        path = f"/api/v1/sandboxes/{sandbox}/events/stream?from=1"
        async with raw_socket(gateway, path, receive_buffer=4096, upgrade=False) as stuck:
            assert b" 200 " in await stuck.head()
            await _print_much(gateway, sandbox)
            poll = select.poll()
            poll.register(stuck.socket, select.POLLERR | select.POLLHUP)
            await eventually(lambda: bool(poll.poll(0)))
