"""A service's words as JSON: what they are about, and no secret in them."""

import asyncio
import datetime
import json
import logging
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from litestar import Litestar, get
from litestar.params import FromPath

from contracts.errors import SandboxCreationFailed
from infra import asking
from infra.lifecycles import Lifecycles
from infra.observing.about import About, Order, about, service, speaking_of
from infra.observing.json_log import JsonFormatter
from infra.secrets.redaction import Redactor
from services.gateway.problems import HANDLERS
from services.spawner.unfinished import Unfinished
from tests.egress.vault import redactor_of

NOW = datetime.datetime.now(datetime.UTC)
SECRET = 'a "quoted" secret with a back\\slash'


def line(formatter: JsonFormatter, message: str, *args: object, error: Exception | None = None) -> dict[str, Any]:
    told = (type(error), error, None) if error else None
    record = logging.LogRecord("services.executor.outlet", logging.WARNING, "x.py", 1, message, args, told)
    text = formatter.format(record)
    assert "\n" not in text
    decoded: dict[str, Any] = json.loads(text)
    return decoded


@pytest.fixture
def formatter() -> JsonFormatter:
    return JsonFormatter(Redactor(), "n1")


def test_a_line_says_when_who_where_and_what(formatter: JsonFormatter) -> None:
    told = line(formatter, "%s: dead letter", "x")
    assert told["time"].endswith("Z")
    assert (told["level"], told["service"], told["node"]) == ("warning", "executor", "n1")
    assert told["message"] == "x: dead letter"
    assert "sandbox" not in told


def test_what_is_said_while_an_order_is_in_hand_names_its_sandbox_and_command(formatter: JsonFormatter) -> None:
    order = Order("cloche.cmd.local.s-1.command.run", b'{"id": "c-1", "data": {}}', NOW)
    with about(order):
        told = line(formatter, "x")
    assert (told["sandbox"], told["command"]) == ("s-1", "c-1")
    assert "command" not in line(formatter, "x")


@pytest.mark.parametrize("raw", [b"", b"\xff", b"[]", b'{"id": 7}'])
def test_an_order_that_is_none_is_no_trouble(formatter: JsonFormatter, raw: bytes) -> None:
    with about(Order("nonsense", raw, NOW)):
        assert line(formatter, "x")["message"] == "x"


async def test_tasks_that_an_order_begins_speak_of_it_too(formatter: JsonFormatter) -> None:
    async def say() -> dict[str, Any]:
        return line(formatter, "x")

    with about(About("s-1", "c-1")):
        task = asyncio.create_task(say())
    assert (await task)["command"] == "c-1"


async def test_a_task_about_a_sandbox_names_it_and_its_order_where_it_has_one(formatter: JsonFormatter) -> None:
    async def say(word: str) -> dict[str, Any]:
        return line(formatter, word)

    def told(found: dict[str, Any]) -> tuple[str | None, str | None]:
        return found.get("sandbox"), found.get("command")

    order = Order("cloche.cmd.local.s-1.command.run", b'{"id": "c-1", "data": {}}', NOW)
    assert told(await speaking_of(About("s-1"), say, "x")) == ("s-1", None)
    with about(order):
        assert told(await speaking_of(About("s-1"), say, "x")) == ("s-1", "c-1")
        assert told(await speaking_of(About("s-2", "r-2"), say, "x")) == ("s-2", "r-2")


async def test_what_a_service_says_of_a_sandbox_by_itself_names_it(
    formatter: JsonFormatter, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody has ordered that: it is found unfinished, and gone on with."""
    caplog.handler.setFormatter(formatter)
    tried = asyncio.Event()

    async def fail(_: str) -> None:
        tried.set()
        raise SandboxCreationFailed("no engine")

    async with asyncio.TaskGroup() as tasks:
        unfinished = Unfinished(tasks, "n1", cast("Lifecycles", ()))
        unfinished.go_on = fail
        unfinished.later("s-1", 0)
        await tried.wait()
    (said,) = [json.loads(each) for each in caplog.text.splitlines()]
    assert (said["sandbox"], "no engine" in said["message"]) == ("s-1", True)


async def test_a_request_that_fails_at_the_gateway_names_what_its_path_does(
    formatter: JsonFormatter, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.handler.setFormatter(formatter)

    @get("/sandboxes/{sandbox_id:str}/commands/{exec_id:str}")
    async def bug(sandbox_id: FromPath[str], exec_id: FromPath[str]) -> None:
        raise ZeroDivisionError

    web = Litestar([bug], exception_handlers=HANDLERS, logging_config=None)
    transport = httpx.ASGITransport(web)  # type: ignore[arg-type]  # of Litestar's own spelling of ASGI
    async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
        assert (await client.get("/sandboxes/s-1/commands/e-1")).status_code == 500
    (said,) = [told for each in caplog.text.splitlines() if (told := json.loads(each))["level"] == "error"]
    assert (said["sandbox"], said["command"], said["service"]) == ("s-1", "e-1", "gateway")


def test_the_trace_and_the_service_of_the_task_are_told(formatter: JsonFormatter) -> None:
    trace, whose = asking.traceparent.set(f"00-{'ab' * 16}-{'cd' * 8}-01"), service.set("guardian")
    try:
        told = line(formatter, "x")
    finally:
        asking.traceparent.reset(trace)
        service.reset(whose)
    assert (told["trace"], told["service"]) == ("ab" * 16, "guardian")


def test_a_secret_that_json_would_spell_otherwise_is_masked(tmp_path: Path) -> None:
    formatter = JsonFormatter(redactor_of(tmp_path, SECRET), "n1")
    told = line(formatter, "it is %s", SECRET, error=ValueError(f"not {SECRET}"))
    assert SECRET not in told["message"]
    assert SECRET not in told["error"]
    assert "quoted" not in json.dumps(told)


def test_an_error_is_told_with_where_it_came_from(formatter: JsonFormatter) -> None:
    assert "ValueError: no" in line(formatter, "x", error=ValueError("no"))["error"]
