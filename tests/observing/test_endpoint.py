"""`/metrics` and `/healthz` of a process, against whoever asks for them badly too."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from infra.observing import endpoint as endpoints
from infra.observing import polling
from infra.observing.endpoint import MOST_AT_A_TIME, REQUEST_BYTES, endpoint
from infra.observing.presence import Presence
from infra.ports import free_port
from infra.settings import Metrics


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Presence:
    found = Presence()
    monkeypatch.setattr(endpoints, "presence", lambda: found)
    monkeypatch.setattr(polling, "switch_on", lambda: None)
    return found


@pytest.fixture
async def port(here: Presence) -> AsyncIterator[int]:
    port = free_port()
    async with endpoint(Metrics(port=port)):
        yield port


async def ask(port: int, request: bytes) -> bytes:
    """Everything that comes until it is closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request)
        await writer.drain()
        return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


async def test_figures_are_text_that_prometheus_takes(port: int) -> None:
    answer = await ask(port, b"GET /metrics?x=1 HTTP/1.1\r\nHost: x\r\n\r\n")
    assert status(answer) == 200
    assert b"text/plain" in answer
    assert b"process_resident_memory_bytes" in answer


async def test_a_process_is_well_once_all_its_services_are_ready_and_connected(port: int, here: Presence) -> None:
    request = b"GET /healthz HTTP/1.1\r\n\r\n"
    executor = here.expect("executor")
    answer = await ask(port, request)
    assert status(answer) == 503
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["ailing"] == ["executor"]
    executor.is_ready = True
    assert status(await ask(port, request)) == 200
    of_another_partition = here.expect("executor")
    assert status(await ask(port, request)) == 503, "one of two that are called so"
    of_another_partition.is_ready = True
    assert status(await ask(port, request)) == 200
    with here.connection("executor", lambda: False):
        assert status(await ask(port, request)) == 503
    assert status(await ask(port, request)) == 200


@pytest.mark.parametrize(
    ("request_", "expected"),
    [(b"POST /metrics HTTP/1.1\r\n\r\n", 405), (b"GET /etc/passwd HTTP/1.1\r\n\r\n", 404), (b"\r\n\r\n", 405)],
)
async def test_anything_else_is_refused(port: int, request_: bytes, expected: int) -> None:
    assert status(await ask(port, request_)) == expected


async def test_a_head_has_no_body(port: int) -> None:
    answer = await ask(port, b"HEAD /metrics HTTP/1.1\r\n\r\n")
    assert status(answer) == 200
    assert answer.endswith(b"\r\n\r\n")


async def test_a_request_without_end_is_cut_off(port: int) -> None:
    assert await ask(port, b"GET /" + b"a" * (4 * REQUEST_BYTES)) == b""


async def test_whoever_says_nothing_is_let_go(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoints, "REQUEST_S", 0.01)
    assert await ask(port, b"GET /metrics") == b""


async def test_whoever_holds_every_place_and_says_nothing_keeps_nobody_from_asking(port: int, here: Presence) -> None:
    here.expect("executor").is_ready = True
    held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2 * MOST_AT_A_TIME)]
    assert status(await ask(port, b"GET /healthz HTTP/1.1\r\n\r\n")) == 200
    for _, writer in held:
        writer.transport.abort()


async def test_a_port_that_is_taken_stops_nobody(port: int, caplog: pytest.LogCaptureFixture) -> None:
    async with endpoint(Metrics(port=port)):
        assert "no figures" in caplog.text
