"""Whoever joins, wherever and whenever, is told everything from there on: once, in order, as it stands in the log."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec

from contracts.access import Role
from tests.gateway.live.client import Frame, following
from tests.gateway.rig import Gateway, gateway_in


async def _log_of(gateway: Gateway, sandbox: str) -> dict[int, bytes]:
    found = await gateway.cloche.sandbox(sandbox)
    return {event.sequence: event.raw async for event in found.events()}


def _sequences(events: list[Frame]) -> list[int]:
    return [event["sequence"] for event in events]


async def test_every_cursor_gives_the_rest_of_the_log_byte_for_byte_and_then_what_happens(tmp_path: Path) -> None:
    async with gateway_in(tmp_path) as gateway:
        sandbox = await gateway.cloche.create({"labels": {"a": "b"}})
        await sandbox.run("echo before; echo 'ä€😀 \"quoted\"'")
        stored = await _log_of(gateway, sandbox.id)
        for cursor in (1, *list(stored)[1::3], max(stored)):
            async with following(gateway, sandbox.id, from_=cursor) as follower:
                expected = [sequence for sequence in stored if sequence >= cursor]
                assert follower.connected["status"] == "running"
                assert follower.connected["sandbox_id"] == sandbox.id
                assert follower.connected["head_sequence"] >= max(stored)
                assert follower.connected["buffered_events_count"] >= len(expected)
                texts = [bytes(await follower.connection.recv(decode=False)) for _ in expected]
                events: list[Any] = [msgspec.json.decode(text) for text in texts]
                assert _sequences(events) == expected
                assert all(stored[event["sequence"]] in text for event, text in zip(events, texts, strict=True))
                assert all(event["data"]["type"] == event["event_type"] for event in events)


async def test_history_and_what_happens_meanwhile_join_without_gap_or_repeat(tmp_path: Path) -> None:
    async with gateway_in(tmp_path) as gateway:
        sandbox = await gateway.cloche.create()
        talking = asyncio.create_task(sandbox.run("for i in $(seq 1 400); do echo line $i; done; sleep 0.2; echo end"))

        async def follow() -> list[int]:
            async with following(gateway, sandbox.id, from_=1) as follower:
                return _sequences(await follower.events_until("command.completed"))

        heard = await asyncio.gather(*(follow() for _ in range(8)))
        await talking
        stored = await _log_of(gateway, sandbox.id)
        for sequences in heard:
            assert sequences == [each for each in stored if each <= sequences[-1]]


async def test_without_a_cursor_only_what_happens_from_now_on_is_told(tmp_path: Path) -> None:
    async with gateway_in(tmp_path) as gateway:
        sandbox = await gateway.cloche.create()
        await sandbox.run("true")
        async with following(gateway, sandbox.id) as follower:
            await sandbox.run("echo news")
            events = await follower.events_until("command.completed")
            assert events[0]["sequence"] > follower.connected["head_sequence"]
            assert [event["event_type"] for event in events if event["event_type"].startswith("command.")] == [
                "command.started",
                "command.output",
                "command.completed",
            ]


async def test_a_removed_sandbox_has_its_history_and_the_connection_stays(tmp_path: Path) -> None:
    async with gateway_in(tmp_path) as gateway:
        sandbox = await gateway.cloche.create()
        await sandbox.remove()
        async with following(gateway, sandbox.id, from_=1) as follower:
            assert follower.connected["status"] == "removed"
            await follower.events_until("sandbox.removed")
            await follower.say(type="ping", id="p")
            assert (await follower.until("pong"))["id"] == "p"


async def test_a_cursor_that_the_log_does_not_reach_is_told_as_a_gap_and_nothing_is_passed_over(tmp_path: Path) -> None:
    async with gateway_in(tmp_path) as gateway:
        sandbox = await gateway.cloche.create()
        async with following(gateway, sandbox.id, from_=1_000_000) as follower:
            told = await follower.until("error")
            assert told["code"] == "LOG_GAP"
            assert told["first_sequence"] <= told["last_sequence"] == 999_999
            await sandbox.run("true")
            events = await follower.events_until("command.completed")
            assert events[0]["sequence"] >= told["first_sequence"]


async def test_the_figures_know_who_follows_and_what_they_were_sent(tmp_path: Path) -> None:
    async with gateway_in(tmp_path) as gateway, gateway.client(gateway.token(Role.ADMIN)) as client:
        sandbox = await gateway.cloche.create()
        async with following(gateway, sandbox.id, from_=1) as follower:
            sent = len(await follower.events_until("sandbox.started"))
            figures = (await client.get("/metrics")).text.splitlines()
            assert 'cloche_gateway_followers{kind="websocket"} 1.0' in figures
            told = {line.split()[0]: float(line.split()[-1]) for line in figures if not line.startswith("#")}
            assert told["cloche_gateway_events_sent_total"] >= sent
            assert told["cloche_gateway_event_bytes_sent_total"] > sent * 100
            again = (await client.get("/metrics")).text.splitlines()
            assert 'cloche_gateway_request_seconds_count{route="/metrics"} 1.0' in again
