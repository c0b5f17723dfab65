"""Server-sent events: the same frames, with a cursor that any client brings back by itself."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import msgspec

from contracts.access import Role, Scope
from tests.gateway.rig import Gateway, gateway_in


class Message(NamedTuple):
    id: int | None
    frame: dict[str, Any]


async def _messages(client: httpx.AsyncClient, path: str, **headers: str) -> AsyncIterator[Message]:
    async with client.stream("GET", path, headers=headers) as answer:
        assert answer.status_code == 200, await answer.aread()
        assert answer.headers["content-type"].startswith("text/event-stream")
        told: dict[str, str] = {}
        async for line in answer.aiter_lines():
            if line:
                key, _, value = line.partition(": ")
                told[key] = value
            elif told:
                yield Message(int(told["id"]) if "id" in told else None, msgspec.json.decode(told["data"]))
                told = {}


async def _until(client: httpx.AsyncClient, path: str, event_type: str, **headers: str) -> list[Message]:
    found: list[Message] = []
    async for message in _messages(client, path, **headers):
        if message.frame["type"] == "event":
            found.append(message)
            if message.frame["event_type"] == event_type:
                break
    return found


def _path(gateway: Gateway, sandbox: str, query: str = "") -> str:
    return f"/api/v1/sandboxes/{sandbox}/events/stream{query}"


async def test_a_stream_goes_on_behind_the_last_event_that_its_client_names(tmp_path: Path) -> None:
    async with gateway_in(tmp_path) as gateway, gateway.client(gateway.token(Role.VIEWER)) as client:
        sandbox = await gateway.cloche.create()
        await sandbox.run("echo one; echo two >&2")
        stored = [event.sequence async for event in sandbox.events()]
        whole = await _until(client, _path(gateway, sandbox.id, "?from=1"), "command.completed")
        assert [message.id for message in whole] == stored[: len(whole)]
        assert all(message.id == message.frame["sequence"] for message in whole)
        middle = whole[3]
        rest = await _until(
            client, _path(gateway, sandbox.id, "?from=1"), "command.completed", **{"last-event-id": str(middle.id)}
        )
        assert rest == whole[4:]


async def test_a_stream_tells_what_happens_and_only_what_was_asked_for(tmp_path: Path) -> None:
    async with gateway_in(tmp_path) as gateway, gateway.client() as client:
        sandbox = await gateway.cloche.create()
        # By the name that `GET …/events` has for it, and by that of a `subscribe` frame.
        for name in ("type", "types"):
            messages = _messages(client, _path(gateway, sandbox.id, f"?{name}=command.output"))
            assert (await anext(messages)).frame["type"] == "connected"
            await sandbox.run("echo live")
            assert (await anext(messages)).frame["data"]["data"]["data"] == "live\n"
            await messages.aclose()  # type: ignore[attr-defined]


async def test_a_stream_is_refused_out_of_scope_and_for_what_is_no_sequence(tmp_path: Path) -> None:
    async with gateway_in(tmp_path) as gateway:
        sandbox = await gateway.cloche.create()
        async with gateway.client(gateway.token(Role.VIEWER, Scope(sandboxes=("other",)))) as client:
            refused = await client.get(_path(gateway, sandbox.id))
            assert (refused.status_code, refused.json()["code"]) == (404, "SANDBOX_NOT_FOUND")
        async with gateway.client() as client:
            for path, headers in (
                (_path(gateway, sandbox.id, "?from=x"), {}),
                (_path(gateway, sandbox.id), {"last-event-id": "x"}),
            ):
                refused = await client.get(path, headers=headers)
                assert (refused.status_code, refused.json()["code"]) == (400, "INVALID")
