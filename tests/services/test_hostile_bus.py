"""Whatever is put on the bus ends on the record with a reason, and nothing stalls."""

import asyncio
import base64
import json
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from contracts.streams import COMMANDS_STREAM
from tests.services.hostile_messages import ENDED, LETTERS, REJECTED, RUNNING, SANDBOX, Bad
from tests.services.node import Node
from tests.services.outsider import PATIENCE_S, Heard, Outsider, ends, letters, of

pytestmark = pytest.mark.asyncio(loop_scope="module")

FLOOD = 2000


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Node]:
    data = tmp_path_factory.mktemp("node")
    (data / "cloche.toml").write_text("[intervals]\nsweep_s = 0.5\n")
    async with Node(data) as node:
        yield node


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def outsider(node: Node) -> AsyncIterator[Outsider]:
    async with Outsider.connect(node.data) as outsider:
        await outsider.create(SANDBOX)
        yield outsider


async def drained(node: Node) -> None:
    """Until the queue of commands is empty. It has no event for that."""
    async with await node.server.connect("admin") as admin, asyncio.timeout(PATIENCE_S):
        while (await admin.api(f"STREAM.INFO.{COMMANDS_STREAM}"))["state"]["messages"]:
            await asyncio.sleep(0.05)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def record(node: Node, outsider: Outsider) -> list[Heard]:
    """Everything that was heard after all the bad messages were sent and taken."""
    await outsider.order("command.run", SANDBOX, {"shell": "true"}, id_=ENDED)
    await outsider.until(lambda heard: ends(heard, SANDBOX, ENDED))
    await outsider.order("command.run", SANDBOX, {"shell": "sleep 600"}, id_=RUNNING)
    await outsider.until(lambda heard: of(heard, f"cloche.log.{SANDBOX}.command.started.{RUNNING}"))
    await outsider.publish_raw(*((bad.subject, bad.payload, bad.headers) for bad in [*LETTERS, *REJECTED]))
    await drained(node)
    assert await outsider.run(SANDBOX, "echo still here") == "still here\n"
    return outsider.heard


def is_about(letter: Heard, bad: Bad) -> bool:
    data = letter.data
    raw = data["data"].encode() if data["encoding"] == "utf-8" else base64.b64decode(data["data"])
    about = data["subject"] == bad.subject.decode("utf-8", "replace")
    return about and data["size"] == len(bad.payload) and bad.payload.startswith(raw)


@pytest.mark.parametrize("bad", LETTERS, ids=lambda bad: bad.name)
async def test_what_cannot_be_obeyed_is_one_dead_letter_with_a_reason(record: list[Heard], bad: Bad) -> None:
    (letter,) = [each for each in letters(record) if is_about(each, bad)]
    reason = letter.data["reason"]
    assert reason["code"] == bad.code
    assert bad.words in reason["message"]


@pytest.mark.parametrize("bad", REJECTED, ids=lambda bad: bad.name)
async def test_what_cannot_run_is_rejected_once_with_a_reason(record: list[Heard], bad: Bad) -> None:
    (end,) = ends(record, bad.subject.decode().split(".")[3], bad.name)
    assert end.type == "command.rejected"
    assert end.data["failure"]["code"] == bad.code
    assert bad.words in end.data["failure"]["message"]
    assert not [each for each in letters(record) if each.event["correlationid"] == bad.name]


async def test_no_bad_message_hurt_what_was_running(record: list[Heard], outsider: Outsider) -> None:
    assert not ends(record, SANDBOX, RUNNING)
    await outsider.order("command.signal", SANDBOX, {"exec": RUNNING, "signal": 9})
    (end,) = await outsider.until(lambda heard: ends(heard, SANDBOX, RUNNING))
    assert end.data["exit"]["signal"] == 9
