"""A stream of messages that the server takes only as long as its writer may speak."""

import asyncio
from pathlib import Path

import pytest

from contracts.errors import Conflict
from infra.bus import headers, reader
from infra.bus.connection import Bus
from infra.bus.out_stream import OutStream, Right
from infra.bus.publisher import Expect, append
from tests.bus.servers import nats_in, until

CLAIMS = "cloche.log.sb.sandbox.recovering"
OUTPUT = "cloche.log.sb.command.output.e"
TOLD = "cloche.log.sb.command.*.e"
MESSAGES = 2000


async def _claim(spawner: Bus) -> int:
    return (await append(spawner, CLAIMS, b"{}", "claim")).seq


async def _numbers(bus: Bus) -> list[int]:
    return [int(entry.data) async for entry in reader.read(bus, [OUTPUT], 1, follow=False)]


async def _write(out: OutStream, sent: list[int]) -> None:
    for number in range(MESSAGES):
        await out.send(OUTPUT, b"%d" % number, f"m{number}")
        sent.append(number)
    await out.flush()


async def test_a_writer_that_may_go_on_loses_nothing_and_no_order_by_a_claim(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        executor, spawner = await server.connect("executor"), await server.connect("spawner")
        renewed: list[int] = []

        async def renew() -> Right:
            newest = await reader.last(executor, CLAIMS)
            renewed.append(0 if newest is None else newest.seq)
            return Right(Expect(CLAIMS, renewed[-1]), Expect(TOLD, 0))

        sent: list[int] = []
        async with OutStream(executor, right=Right(Expect(CLAIMS, 0), Expect(TOLD, 0)), renew=renew) as out:
            writing = asyncio.create_task(_write(out, sent))
            await until(lambda: len(sent) > MESSAGES / 4)
            claim = await _claim(spawner)
            await writing
        assert claim in renewed
        assert await _numbers(executor) == list(range(MESSAGES))
        # Most of the log is such messages, so they are read the quick way.
        newest = await reader.last(executor, OUTPUT)
        assert newest is not None
        assert headers.STORED.fullmatch(newest.headers)


async def test_nothing_is_stored_after_a_claim_of_somebody_else(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        executor, spawner = await server.connect("executor"), await server.connect("spawner")

        async def renew() -> Right:
            raise Conflict("another has it")

        sent: list[int] = []
        out = OutStream(executor, right=Right(Expect(CLAIMS, 0), Expect(TOLD, 0)), renew=renew)
        writing = asyncio.create_task(_write(out, sent))
        await until(lambda: len(sent) > MESSAGES / 4)
        claim = await _claim(spawner)
        with pytest.raises(Conflict, match="another has it"):
            await writing
        await out.aclose()
        before = [entry.seq async for entry in reader.read(executor, [OUTPUT], 1, follow=False)]
        assert before == list(range(1, claim))


async def test_what_was_stored_and_is_refused_when_it_is_sent_again_is_stored_once(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        executor, spawner = await server.connect("executor"), await server.connect("spawner")
        await append(executor, OUTPUT, b"0", "m0")
        claim = await _claim(spawner)

        async def renew() -> Right:
            return Right(Expect(CLAIMS, claim), Expect(TOLD, 0))

        async with OutStream(executor, right=Right(Expect(CLAIMS, 0), Expect(TOLD, 0)), renew=renew) as out:
            first = await out.send(OUTPUT, b"0", "m0")
            await out.send(OUTPUT, b"1", "m1")
            assert (await first).seq == 1
        assert await _numbers(executor) == [0, 1]
