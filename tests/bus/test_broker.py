"""FastStream with our choices, and its traps kept as tests."""

import asyncio
import json
from pathlib import Path
from typing import Any

from faststream import AckPolicy
from faststream.nats import JStream, PullSub

from contracts import streams
from contracts.errors import Invalid
from contracts.streams import COMMANDS_STREAM
from infra.bus import reader
from infra.bus.broker import answer, make_broker, take
from infra.bus.publisher import append
from tests.bus.servers import dead_letter, nats_in, stored, until

SPEC = next(spec for spec in streams.node_consumers("local") if spec.durable == "spawner-local")


async def test_a_command_is_taken_acknowledged_and_its_payload_untouched(tmp_path: Path) -> None:
    """A payload of `1` or `"7"` stays what it is: bytes."""
    async with nats_in(tmp_path) as server:
        bus, client, admin = [await server.connect(user) for user in ("spawner", "client", "admin")]
        seen: list[Any] = []

        async def handle(subject: str, raw: bytes) -> None:
            seen.append(raw)

        broker = make_broker(bus)
        take(broker, SPEC, handle, dead_letter)
        await broker.start()
        payloads = [b"1", b'"7"', b"\xff\xfe", b"", b"{}"]
        for number, payload in enumerate(payloads):
            await append(client, "cloche.cmd.local.sb.sandbox.start", payload, f"c{number}", stream=COMMANDS_STREAM)
        await until(lambda: _empty(admin))
        await broker.stop()
        assert seen == payloads
        assert bus.is_connected


async def _empty(admin: Any) -> bool:
    return await stored(admin, COMMANDS_STREAM) == 0


async def test_a_failing_handler_makes_a_dead_letter_and_not_a_loop(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        bus, client, admin = [await server.connect(user) for user in ("spawner", "client", "admin")]
        calls = 0

        async def handle(subject: str, raw: bytes) -> None:
            nonlocal calls
            calls += 1
            raise Invalid("no")

        broker = make_broker(bus)
        take(broker, SPEC, handle, dead_letter)
        await broker.start()
        await append(client, "cloche.cmd.local.sb.sandbox.start", b"x", "c", stream=COMMANDS_STREAM)
        await until(lambda: _empty(admin))
        await broker.stop()
        assert calls == 1
        letter = await reader.last(bus, "cloche.log.>")
        assert letter
        assert json.loads(letter.data)["why"] == "no"


async def test_starting_a_broker_leaves_the_streams_as_they_are(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        bus, admin = await server.connect("spawner"), await server.connect("admin")

        async def handle(subject: str, raw: bytes) -> None: ...

        before = [(await admin.api(f"STREAM.INFO.{name}"))["config"] for name in ("CLOCHE_COMMANDS", "CLOCHE_LOG")]
        broker = make_broker(bus)
        take(broker, SPEC, handle, dead_letter)
        await broker.start()
        await broker.stop()
        after = [(await admin.api(f"STREAM.INFO.{name}"))["config"] for name in ("CLOCHE_COMMANDS", "CLOCHE_LOG")]
        assert before == after


async def test_a_stream_that_is_declared_by_a_subscriber_is_rewritten(tmp_path: Path) -> None:
    """The trap: why `declare=False` and why no service may update a stream."""
    async with nats_in(tmp_path) as server:
        admin = await server.connect("admin")
        config = {"name": "TRAP", "subjects": ["trap.>"], "max_age": 10**12, "duplicate_window": 10**9}
        for declare, expected in ((False, 10**12), (True, 0)):
            name = f"TRAP{declare}"
            await admin.api(f"STREAM.CREATE.{name}", config | {"name": name, "subjects": [f"trap.{declare}.>"]})
            broker = make_broker(admin)

            async def handle(body: bytes) -> None: ...

            broker.subscriber(
                f"trap.{declare}.x",
                stream=JStream(name, declare=declare),
                pull_sub=PullSub(),
                durable="d",
                ack_policy=AckPolicy.MANUAL,
            )(handle)
            await broker.start()
            await broker.stop()
            assert (await admin.api(f"STREAM.INFO.{name}"))["config"]["max_age"] == expected


async def test_publishing_through_faststream_tells_nothing(tmp_path: Path) -> None:
    """The trap: no stream, no acknowledgement, no error. Facts go through `publisher.append`."""
    async with nats_in(tmp_path) as server:
        admin = await server.connect("admin")
        broker = make_broker(admin)
        await broker.connect()
        told: object = await broker.publish(b"x", "nobody.listens")  # type: ignore[func-returns-value]
        assert told is None
        await broker.stop()


async def test_requests_are_answered_several_at_a_time(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        bus, client = await server.connect("replay"), await server.connect("client")
        together = asyncio.Barrier(3)

        async def handle(subject: str, raw: bytes) -> bytes:
            async with asyncio.timeout(10):
                await together.wait()
            return subject.encode() + b" " + raw

        broker = make_broker(bus)
        answer(broker, "cloche.rpc.state.>", handle, queue="replay")
        await broker.start()
        await bus.settle_subscriptions()
        replies = await asyncio.gather(*(client.request("cloche.rpc.state.x", b"%d" % n) for n in range(3)))
        assert sorted(reply.data for reply in replies) == [b"cloche.rpc.state.x %d" % n for n in range(3)]
        await broker.stop()


async def test_a_reply_is_never_written_into_the_log(tmp_path: Path) -> None:
    """The asker names where the answer goes; the executor may write `cloche.log.*.tool.>`."""
    async with nats_in(tmp_path) as server:
        bus, client, admin = [await server.connect(user) for user in ("executor", "client", "admin")]
        answered = asyncio.Event()

        async def handle(subject: str, raw: bytes) -> bytes:
            answered.set()
            return b"forged"

        broker = make_broker(bus)
        answer(broker, "cloche.rpc.local.*.files.>", handle, queue="executor")
        await broker.start()
        await bus.settle_subscriptions()
        for asker in (client, bus):
            answered.clear()
            await asker.client.publish("cloche.rpc.local.sb.files.read", b"", reply="cloche.log.sb.tool.returned")
            if asker is client:
                await answered.wait()
        await broker.stop()
        await bus.client.flush()
        assert await stored(admin) == 0


async def test_the_broker_goes_on_after_the_server_was_killed(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        bus, client = await server.connect("replay"), await server.connect("client")

        async def handle(subject: str, raw: bytes) -> bytes:
            return raw

        broker = make_broker(bus)
        answer(broker, "cloche.rpc.state.>", handle, queue="replay")
        await broker.start()
        await server.kill_and_wait()
        await bus.wait_connected()
        await client.wait_connected()
        await bus.settle_subscriptions()
        assert (await client.request("cloche.rpc.state.x", b"still here")).data == b"still here"
        await broker.stop()


async def test_a_broker_takes_commands_again_after_the_server_was_killed(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        bus, client = await server.connect("spawner"), await server.connect("client")
        seen: list[bytes] = []

        async def handle(subject: str, raw: bytes) -> None:
            seen.append(raw)

        broker = make_broker(bus)
        take(broker, SPEC, handle, dead_letter)
        await broker.start()
        for number in range(3):
            await server.kill_and_wait()
            payload = b"%d" % number
            await append(client, "cloche.cmd.local.sb.sandbox.start", payload, f"c{number}", stream=COMMANDS_STREAM)
            await until(lambda payload=payload: payload in seen)  # type: ignore[misc]
        await broker.stop()
