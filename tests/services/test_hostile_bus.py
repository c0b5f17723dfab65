"""Whatever is put on the bus ends on the record with a reason, and nothing stalls."""

import asyncio
import base64
import json
import random
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from contracts.streams import COMMANDS_STREAM
from tests.agents.node import AgentNode
from tests.services.hostile_messages import ENDED, LETTERS, REJECTED, RUNNING, SANDBOX, Bad
from tests.services.node import Node
from tests.services.outsider import PATIENCE_S, Heard, Outsider, ends, letters, of

pytestmark = pytest.mark.asyncio(loop_scope="module")

FLOOD = 1200
TRIED_AGAIN = 1050
"""More than a consumer with the server's usual limit of 1,000 would have in hand."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Node]:
    data = tmp_path_factory.mktemp("node")
    (data / "cloche.toml").write_text("[intervals]\nsweep_s = 0.5\n")
    async with AgentNode(data, DOCKER_HOST="unix:///nobody/listens.sock") as node:
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


async def test_a_command_that_is_cancelled_over_and_over_ends_once(outsider: Outsider) -> None:
    shell = "trap : TERM; echo up; head -1 >/dev/null; exit 5"
    exec_id = await outsider.order("command.run", SANDBOX, {"shell": shell, "stdin": True})
    await outsider.until(lambda heard: of(heard, f"cloche.log.{SANDBOX}.command.output.{exec_id}"))
    for _ in range(100):
        order = {"exec": exec_id, "signal": 28, "cancel": True, "reason": "\U0001f389" * 1000, "grace_ms": 600_000}
        await outsider.order("command.signal", SANDBOX, order)
    await outsider.order("command.input", SANDBOX, {"exec": exec_id, "data": "end\n"})
    (end,) = await outsider.until(lambda heard: ends(heard, SANDBOX, exec_id))
    assert (end.type, end.data["exit"]["code"]) == ("command.cancelled", 5)
    assert await outsider.run(SANDBOX, "echo next") == "next\n"


async def test_a_dead_letter_with_the_id_of_a_running_command_does_not_end_it(node: Node, outsider: Outsider) -> None:
    exec_id = await outsider.order("command.run", SANDBOX, {"shell": "head -1", "stdin": True})
    await outsider.until(lambda heard: of(heard, f"cloche.log.{SANDBOX}.command.started.{exec_id}"))
    await outsider.order("command.run", SANDBOX, {"shell": 7}, id_=exec_id)
    await outsider.until(lambda heard: of(heard, f"cloche.log.{SANDBOX}.dead_letter.executor.{exec_id}"))
    await outsider.order("command.input", SANDBOX, {"exec": exec_id, "data": "heard\n"})
    async with node.connect() as cloche:
        result = await (await cloche.sandbox(SANDBOX)).execution(exec_id).wait()
    assert (result.exit_code, result.stdout) == (0, b"heard\n")


async def test_an_impossible_question_does_not_silence_the_answers(
    outsider: Outsider,
) -> None:
    await outsider.publish_raw(
        (b"cloche.rpc.state.\xff\xfe", b"{}", None),
        (b"cloche.rpc.state.sandboxes", b"{}", b"NATS/1.0"),
        (b"cloche.rpc.state.sandboxes", b"{}", b"NATS/1.0 \xff\xff\xff\r\n\r\n"),
        (b"cloche.rpc.state.sandboxes", b"[" * 1_000_000, b"NATS/1.0 503\r\n\r\n"),
    )
    assert (await outsider.ask("sandboxes"))["result"]["sandboxes"]


async def test_good_commands_among_bad_ones_run_as_if_they_were_alone(node: Node, outsider: Outsider) -> None:
    chance = random.Random(20)
    bad = [each for each in LETTERS if each.code != "CONFLICT" and len(each.payload) < 10_000]
    mixed: list[tuple[bytes, bytes, bytes | None]] = []
    for number in range(60):
        mixed += [(each.subject, each.payload, each.headers) for each in chance.sample(bad, 5)]
        order = {"id": f"good-{number}", "type": "command.run", "data": {"shell": f"echo {number}"}}
        mixed.append((f"cloche.cmd.local.{SANDBOX}.command.run".encode(), json.dumps(order).encode(), None))
    await asyncio.gather(*(outsider.publish_raw(*mixed[at::4]) for at in range(4)))
    for number in range(60):
        assert await outsider.output(SANDBOX, f"good-{number}") == f"{number}\n"
    await drained(node)


async def test_a_flood_of_nonsense_does_not_stall_a_good_command(node: Node, outsider: Outsider) -> None:
    run, create = f"cloche.cmd.local.{SANDBOX}.command.run".encode(), b"cloche.cmd.any.flooded.sandbox.create"
    before = len(letters(outsider.heard))
    await outsider.publish_raw(*((run, b"\xff nonsense %d" % number, None) for number in range(FLOOD)))
    await outsider.publish_raw(*((create, b"\xff nonsense %d" % number, None) for number in range(FLOOD // 4)))
    assert await outsider.run(SANDBOX, "echo through") == "through\n"
    await outsider.create("after-the-flood")
    await drained(node)
    await outsider.until(lambda heard: len(letters(heard)) == before + FLOOD + FLOOD // 4)


async def test_a_good_command_does_not_wait_for_those_that_are_tried_again(node: Node, outsider: Outsider) -> None:
    def given_up() -> int:
        return len([each for each in letters(outsider.heard) if "flood-of-input" in each.data["data"]])

    for _ in range(TRIED_AGAIN):
        await outsider.order("command.input", SANDBOX, {"exec": "flood-of-input", "data": "x"})
    assert await outsider.run(SANDBOX, "echo through") == "through\n"
    assert given_up() < TRIED_AGAIN
    await drained(node)
    await outsider.until(lambda _: given_up() == TRIED_AGAIN)
