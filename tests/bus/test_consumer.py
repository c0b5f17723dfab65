"""A message has three ends, and order is kept where it is promised."""

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from contracts import streams
from contracts.errors import Invalid, QuotaExceeded, SandboxCreationFailed, SandboxNotFound, Unavailable
from contracts.streams import COMMANDS_STREAM, DELIVERY_LIMIT, ConsumerSpec
from infra.bus import consumer, reader, settle
from infra.bus.connection import Bus
from infra.bus.publisher import append
from infra.bus.settle import Handler
from infra.observing import catalogue
from tests.bus.servers import dead_letter, nats_in, stored, until

SPEC = next(spec for spec in streams.node_consumers("local") if spec.durable == "spawner-local")


async def order(bus: Bus, name: str, *, sandbox: str = "sb", payload: bytes = b"{}") -> None:
    subject = f"cloche.cmd.local.{sandbox}.sandbox.{name}"
    await append(bus, subject, payload, f"cmd-{sandbox}-{name}", stream=COMMANDS_STREAM)


@contextlib.asynccontextmanager
async def running(bus: Bus, handle: Handler, *, concurrency: int = 1, spec: ConsumerSpec = SPEC) -> AsyncIterator[None]:
    task = asyncio.create_task(consumer.run(bus, spec, handle, dead_letter=dead_letter, concurrency=concurrency))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _empty(admin: Bus) -> bool:
    return await stored(admin, COMMANDS_STREAM) == 0


async def test_handled_messages_are_acknowledged_and_come_in_order(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        bus, client, admin = [await server.connect(user) for user in ("spawner", "client", "admin")]
        seen: list[str] = []

        async def handle(subject: str, raw: bytes) -> None:
            await asyncio.sleep(0)
            seen.append(subject.rpartition(".")[2])

        for number in range(50):
            await order(client, f"n{number}")
        async with running(bus, handle):
            await until(lambda: _empty(admin))
        assert seen == [f"n{number}" for number in range(50)]
        assert await stored(admin) == 0


async def test_different_sandboxes_run_at_once_and_one_sandbox_in_order(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        bus, client, admin = [await server.connect(user) for user in ("spawner", "client", "admin")]
        running_now: set[str] = set()
        most = 0
        seen: dict[str, list[str]] = {}
        both = asyncio.Event()

        async def handle(subject: str, raw: bytes) -> None:
            nonlocal most
            sandbox, name = subject.split(".")[3], subject.split(".")[5]
            assert sandbox not in running_now
            running_now.add(sandbox)
            most = max(most, len(running_now))
            if most == 2:
                both.set()
            await both.wait()
            seen.setdefault(sandbox, []).append(name)
            running_now.discard(sandbox)

        for number in range(5):
            await order(client, f"n{number}", sandbox="a")
        for number in range(5):
            await order(client, f"n{number}", sandbox="b")
        async with running(bus, handle, concurrency=8):
            await until(lambda: _empty(admin))
        assert seen == {sandbox: [f"n{number}" for number in range(5)] for sandbox in "ab"}


@pytest.mark.parametrize("failing", ["invalid", "bug"])
async def test_a_poison_message_ends_as_one_dead_letter_and_stalls_nothing(tmp_path: Path, failing: str) -> None:
    async with nats_in(tmp_path) as server:
        bus, client, admin = [await server.connect(user) for user in ("spawner", "client", "admin")]
        calls: list[str] = []

        async def handle(subject: str, raw: bytes) -> None:
            calls.append(subject)
            if raw == b"poison":
                raise Invalid("not a command") if failing == "invalid" else ZeroDivisionError("secret")

        await order(client, "first", payload=b"poison")
        await order(client, "second")
        async with running(bus, handle):
            await until(lambda: _empty(admin))
        letters = [entry async for entry in reader.read(bus, ["cloche.log.>"], follow=False)]
        assert len(letters) == 1
        told = json.loads(letters[0].data)
        assert told["subject"] == "cloche.cmd.local.sb.sandbox.first"
        assert "secret" not in told["why"]
        assert len(calls) == 2


@pytest.mark.parametrize(
    ("error", "outcome", "denied"),
    [
        (QuotaExceeded("too much"), "refused", 1),
        (SandboxNotFound("no such"), "refused", 0),
        (Invalid("no order"), "dead", 0),
        (SandboxCreationFailed("no engine"), "dead", 0),
        (ZeroDivisionError(), "dead", 0),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
async def test_what_a_sender_can_mend_is_told_apart_from_what_somebody_should_look_at(
    tmp_path: Path, error: Exception, outcome: str, denied: int
) -> None:
    ends, denials = (catalogue.orders_settled.of("spawner", outcome), catalogue.denials.of("spawner", "QUOTA_EXCEEDED"))
    before = (ends.value, denials.value)

    async def handle(subject: str, raw: bytes) -> None:
        raise error

    async with nats_in(tmp_path) as server:
        bus, client, admin = [await server.connect(user) for user in ("spawner", "client", "admin")]
        await order(client, "first")
        async with running(bus, handle):
            await until(lambda: ends.value == before[0] + 1)
        assert await stored(admin) == 1, "its letter"
    assert denials.value == before[1] + denied


async def test_a_retryable_failure_comes_again_and_then_succeeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settle, "FIRST_DELAY_S", 0.02)
    async with nats_in(tmp_path) as server:
        bus, client, admin = [await server.connect(user) for user in ("spawner", "client", "admin")]
        calls = 0

        async def handle(subject: str, raw: bytes) -> None:
            nonlocal calls
            calls += 1
            if calls < 3:
                raise Unavailable("not yet")

        await order(client, "start")
        async with running(bus, handle):
            await until(lambda: _empty(admin))
        assert calls == 3
        assert await stored(admin) == 0


async def test_a_message_that_keeps_failing_is_given_up_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settle, "FIRST_DELAY_S", 0.01)
    async with nats_in(tmp_path) as server:
        bus, client, admin = [await server.connect(user) for user in ("spawner", "client", "admin")]
        calls = 0

        async def handle(subject: str, raw: bytes) -> None:
            nonlocal calls
            calls += 1
            raise Unavailable("the engine is down")

        await order(client, "start")
        async with running(bus, handle):
            await until(lambda: _empty(admin))
        assert calls == DELIVERY_LIMIT
        letter = await reader.last(bus, "cloche.log.>")
        assert letter
        assert "the engine is down" in json.loads(letter.data)["why"]


async def test_a_message_that_keeps_killing_its_service_is_given_up_unread(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        bus, client, admin = [await server.connect(user) for user in ("spawner", "client", "admin")]
        await order(client, "start")
        for _ in range(DELIVERY_LIMIT):
            await bus.publish(await _pull(bus), b"-NAK")

        async def handle(subject: str, raw: bytes) -> None:
            raise AssertionError("called")

        async with running(bus, handle):
            await until(lambda: _empty(admin))
        letter = await reader.last(bus, "cloche.log.>")
        assert letter
        assert json.loads(letter.data)["delivered"] == DELIVERY_LIMIT + 1


async def _pull(bus: Bus) -> str:
    """Takes one message and returns its acknowledgement subject."""
    from infra.bus.puller import Puller

    puller = Puller(bus, SPEC.stream, SPEC.durable)
    async with puller.open():
        return (await puller.next()).reply


async def test_a_long_handler_is_not_given_its_message_twice(tmp_path: Path) -> None:
    async with nats_in(tmp_path, provisioned=True) as server:
        bus, client, admin = [await server.connect(user) for user in ("spawner", "client", "admin")]
        info = await admin.api("CONSUMER.INFO.CLOCHE_COMMANDS.spawner-local")
        config = info["config"] | {"ack_wait": 1_000_000_000}
        await admin.api(
            "CONSUMER.CREATE.CLOCHE_COMMANDS.spawner-local", {"stream_name": COMMANDS_STREAM, "config": config}
        )
        quick = ConsumerSpec(stream=SPEC.stream, durable=SPEC.durable, filters=SPEC.filters, ack_wait_s=1.0)
        calls = 0

        async def handle(subject: str, raw: bytes) -> None:
            nonlocal calls
            calls += 1
            if subject.endswith("slow"):
                await asyncio.sleep(2.5)

        await order(client, "slow")
        await order(client, "waits_for_slow")
        async with running(bus, handle, concurrency=4, spec=quick):
            await until(lambda: _empty(admin))
        assert calls == 2


async def test_a_cancelled_service_leaves_its_message_to_the_next(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        bus, client, admin = [await server.connect(user) for user in ("spawner", "client", "admin")]
        begun = asyncio.Event()

        async def hang(subject: str, raw: bytes) -> None:
            begun.set()
            await asyncio.Event().wait()

        await order(client, "start")
        async with running(bus, hang):
            await begun.wait()
        assert not await _empty(admin)
        done = asyncio.Event()

        async def handle(subject: str, raw: bytes) -> None:
            done.set()

        async with running(bus, handle):
            await done.wait()
            await until(lambda: _empty(admin))


async def test_the_loop_goes_on_after_the_server_was_killed(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        bus, client, admin = [await server.connect(user) for user in ("spawner", "client", "admin")]
        seen: list[str] = []

        async def handle(subject: str, raw: bytes) -> None:
            seen.append(subject)

        async with running(bus, handle):
            for number in range(4):
                await order(client, f"n{number}")
                await server.kill_and_wait()
            await until(lambda: len(set(seen)) == 4)
            await admin.wait_connected()
            await until(lambda: _empty(admin))


async def test_a_missing_consumer_is_complained_about_and_waited_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with nats_in(tmp_path) as server:
        bus, client, admin = [await server.connect(user) for user in ("spawner", "client", "admin")]
        config = (await admin.api("CONSUMER.INFO.CLOCHE_COMMANDS.spawner-local"))["config"]
        await admin.api("CONSUMER.DELETE.CLOCHE_COMMANDS.spawner-local")
        seen: list[str] = []

        async def handle(subject: str, raw: bytes) -> None:
            seen.append(subject)

        with caplog.at_level(logging.ERROR):
            async with running(bus, handle):
                await until(lambda: "has it been provisioned" in caplog.text)
                await admin.api(
                    "CONSUMER.CREATE.CLOCHE_COMMANDS.spawner-local", {"stream_name": COMMANDS_STREAM, "config": config}
                )
                await order(client, "start")
                await until(lambda: seen != [])
        assert caplog.text.count("has it been provisioned") == 1
