"""Whatever is thrown at it is refused, and nobody else notices."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import psutil
import pytest
import pytest_asyncio
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from contracts.access import Role, Scope
from tests.gateway.live.client import Follower, following
from tests.gateway.live.raw import BINARY, CLOSE, CONT, PING, TEXT, RawSocket, frame, raw_socket
from tests.gateway.live.throwing import Target, throw
from tests.gateway.rig import Gateway, gateway_in

pytestmark = pytest.mark.asyncio(loop_scope="module")
MB = 1 << 20
THROWN = 100
"""Connections with up to eight made-up frames, at each address."""


class Stage:
    """A gateway with somebody who behaves: what the others do must not reach them."""

    def __init__(self, gateway: Gateway, sandbox: str, good: Follower) -> None:
        self.gateway = gateway
        self.sandbox = sandbox
        self.good = good
        self.pid = gateway.service.pid

    @contextlib.asynccontextmanager
    async def attacked(self) -> AsyncIterator[RawSocket]:
        async with raw_socket(self.gateway, f"/ws/sandboxes/{self.sandbox}") as raw:
            assert b" 101 " in await raw.head()
            yield raw

    async def check(self) -> None:
        found = await self.gateway.cloche.sandbox(self.sandbox)
        await found.run("echo fine")
        await self.good.until("event", event_type="command.completed")
        assert psutil.pid_exists(self.pid)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    async with gateway_in(tmp_path_factory.mktemp("wrong")) as gateway:
        sandbox = await gateway.cloche.create()
        async with following(gateway, sandbox.id) as good:
            yield Stage(gateway, sandbox.id, good)


async def _answer(follower: Follower, text: str) -> dict[str, object]:
    await follower.connection.send(text)
    while (told := await follower.next())["type"] in ("event", "heartbeat"):
        pass
    return told


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "{}",
        '{"type":"command"}',
        '{"type":"command","command":"fly"}',
        '{"type":"command","command":"run","payload":{"shell":"true","more":1}}',
        '{"type":"command","command":"run","payload":[]}',
        '{"type":"command","command":"run","sandbox":"../x","payload":{}}',
        '{"type":"command","command":"input","payload":{"exec":"a.b","data":"x"}}',
        '{"type":"command","command":"request_files","payload":{"limit":-1}}',
        '{"type":"command","command":"request_terminal","payload":{"lines":1e99}}',
        '{"type":"subscribe","types":["' + "x" * 1000 + '"]}',
        '{"type":"subscribe","from":"7"}',
        '{"type":"event"}',
        '{"type":"ping","id":7}',
        "[" * 100_000,
        '{"type":"ping","id":"\\ud800"}',
    ],
    ids=lambda text: repr(text[:40]),
)
async def test_a_wrong_frame_is_told_to_be_wrong_and_the_connection_stays(stage: Stage, text: str) -> None:
    async with following(stage.gateway, stage.sandbox) as follower:
        told = await _answer(follower, text)
        assert (told["type"], told["code"]) == ("error", "INVALID"), told
        assert await _answer(follower, '{"type":"ping","id":"p"}') == {"type": "pong", "id": "p"}
    await stage.check()


async def test_the_id_of_a_frame_that_is_wrong_is_told_where_it_can_be_read(stage: Stage) -> None:
    async with following(stage.gateway, stage.sandbox) as follower:
        told = await _answer(follower, '{"type":"command","id":"mine","command":"fly"}')
        assert told["id"] == "mine"


async def test_bytes_are_no_frame(stage: Stage) -> None:
    async with stage.attacked() as raw:
        await raw.send(frame(BINARY, b"\0" * 100))
        frames = raw.frames()
        await anext(frames)
        assert b"INVALID" in (await anext(frames)).data
    await stage.check()


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (frame(TEXT, b"x" * (MB + 1)), 1009),
        (frame(TEXT, b"x" * MB, fin=False) + frame(CONT, b"xx"), 1009),
        (frame(TEXT, b"x", fin=False) + frame(CONT, b"", fin=False) * 5000, 1009),
        (frame(TEXT, b"\xff\xfe"), 1007),
        (frame(TEXT, b"{}", masked=False), 1002),
        (frame(CONT, b"nothing to go on with"), 1002),
        (frame(TEXT, b"{", fin=False) + frame(TEXT, b"}"), 1002),
        (frame(3, b"reserved"), 1002),
        (frame(PING, b"x" * 200), 1002),
        (b"\xff" * 64, 1002),
    ],
    ids=[
        "huge",
        "huge in pieces",
        "many pieces",
        "not UTF-8",
        "unmasked",
        "loose",
        "nested",
        "opcode",
        "ping",
        "noise",
    ],
)
async def test_what_breaks_the_protocol_ends_that_connection_with_a_code(stage: Stage, bad: bytes, code: int) -> None:
    async with stage.attacked() as raw:
        with contextlib.suppress(ConnectionError):
            await raw.send(bad)
        last = [each async for each in raw.frames()][-1]
        assert (last.opcode, last.code) == (CLOSE, code)
    await stage.check()


async def test_pings_whose_answers_nobody_reads_cost_no_memory(stage: Stage) -> None:
    process = psutil.Process(stage.pid)
    before = process.memory_info().rss
    async with raw_socket(stage.gateway, f"/ws/sandboxes/{stage.sandbox}", receive_buffer=4096) as raw:
        await raw.head()
        with contextlib.suppress(ConnectionResetError):
            # Who takes nothing for too long is let go of.
            for _ in range(40):
                await raw.send(frame(PING, b"p" * 125) * 10_000)
        await stage.check()
        assert process.memory_info().rss - before < 32 * MB


async def test_more_orders_than_can_be_carried_out_wait_and_none_is_lost(stage: Stage) -> None:
    async with following(stage.gateway, stage.sandbox) as follower:
        for number in range(300):
            await follower.say(type="command", id=str(number), command="input", payload={"exec": "gone", "data": "x"})
        answered = [await follower.next() for _ in range(300)]
        assert [each["id"] for each in answered if each["type"] in ("result", "error")] == [str(n) for n in range(300)]
    await stage.check()


@pytest.mark.parametrize("query", ["from=x", "from=-1", "types=a.b.c", "sandboxes=..", "from=99999999999999999999"])
async def test_a_wrong_address_is_refused_naming_the_parameter(stage: Stage, query: str) -> None:
    url = f"ws://127.0.0.1:{stage.gateway.port}/ws/events?token={stage.gateway.token()}&{query}"
    with pytest.raises(InvalidStatus) as refused:
        async with connect(url, proxy=None):
            pass
    assert refused.value.response.status_code == 400
    await stage.check()
    assert query.partition("=")[0].encode() in refused.value.response.body


@pytest.mark.parametrize("token", ["x", "", "a.b.c", "%00", "x" * 20_000])
async def test_a_wrong_token_is_refused(stage: Stage, token: str) -> None:
    url = f"ws://127.0.0.1:{stage.gateway.port}/ws/events?token={token}"
    with pytest.raises(InvalidStatus) as refused:
        async with connect(url, proxy=None):
            pass
    assert refused.value.response.status_code in (401, 429, 414)
    await stage.check()


async def test_a_page_of_another_origin_is_refused(stage: Stage) -> None:
    url = f"ws://127.0.0.1:{stage.gateway.port}/ws/events?token={stage.gateway.token()}"
    with pytest.raises(InvalidStatus) as refused:
        async with connect(url, proxy=None, origin="https://evil.example"):  # type: ignore[arg-type]
            pass
    assert refused.value.response.status_code == 403
    await stage.check()


async def test_what_is_out_of_a_tokens_scope_is_refused(stage: Stage) -> None:
    token = stage.gateway.token(Role.ADMIN, Scope(sandboxes=("another",)), subject="scoped")
    for path in (f"sandboxes/{stage.sandbox}?", f"events?sandboxes={stage.sandbox}&"):
        with pytest.raises(InvalidStatus) as refused:
            async with connect(f"ws://127.0.0.1:{stage.gateway.port}/ws/{path}token={token}", proxy=None):
                pass
        assert refused.value.response.status_code == 404
    async with following(stage.gateway, None, token) as follower:
        for frame_of_theirs in (
            f'{{"type":"subscribe","id":"s","sandboxes":["{stage.sandbox}"]}}',
            f'{{"type":"command","id":"c","command":"run","sandbox":"{stage.sandbox}","payload":{{"shell":"true"}}}}',
        ):
            assert (await _answer(follower, frame_of_theirs))["code"] == "SANDBOX_NOT_FOUND"
    await stage.check()


@pytest.mark.parametrize("path", ["/ws/sandboxes/victim", "/ws/events"])
async def test_frames_that_are_made_up_end_no_connection_but_their_own(stage: Stage, path: str) -> None:
    if path != "/ws/events":
        await stage.gateway.cloche.create(id="victim")
    target = Target(stage.gateway.port, path, stage.gateway.token(subject="thrower"))
    ends = await asyncio.to_thread(throw, target, THROWN)
    assert {1000, 1002} <= set(ends), ends
    assert not [line for line in stage.gateway.service.said if "ERROR" in line or "Traceback" in line]
    await stage.check()


async def test_the_token_of_an_address_is_in_no_log(stage: Stage) -> None:
    assert not any("token=" in line for line in stage.gateway.service.said)


async def test_those_who_hang_up_in_the_middle_of_anything_are_forgotten(stage: Stage) -> None:
    async def hang_up() -> None:
        async with stage.attacked() as raw:
            await raw.send(frame(TEXT, b'{"type":"command","command":"request_files","payload":{}}') + b"\x81\xff")

    await asyncio.gather(*(hang_up() for _ in range(20)))
    async with following(stage.gateway, stage.sandbox) as follower:
        await follower.connection.send('{"type":"ping"}')
        await follower.until("pong")
    await stage.check()
    assert not [line for line in stage.gateway.service.said if "Traceback" in line or "failed" in line], (
        stage.gateway.service.said
    )
    with pytest.raises(ConnectionClosed):
        await follower.connection.recv()
