"""Any NATS client is a client: plain JSON, a core publish, a core subscription, no library of ours."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.services.node import Node
from tests.services.outsider import Heard, Outsider, ends, letters, of

pytestmark = pytest.mark.asyncio(loop_scope="module")

SANDBOX = "outside"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def outsider(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Outsider]:
    async with Node(tmp_path_factory.mktemp("node")) as node, Outsider.connect(node.data) as outsider:
        await outsider.create(SANDBOX)
        yield outsider


async def times_run(outsider: Outsider, mark: str) -> int:
    """Orders for one sandbox are taken in turn, so whatever was sent before this has been taken after it."""
    return int(await outsider.run(SANDBOX, f"cat {mark} 2>/dev/null | wc -l"))


async def test_a_sandbox_is_created_and_a_command_runs_and_is_heard_live(outsider: Outsider) -> None:
    exec_id = await outsider.order("command.run", SANDBOX, {"argv": ["sh", "-c", "echo out; echo err >&2; exit 3"]})
    (end,) = await outsider.until(lambda heard: ends(heard, SANDBOX, exec_id))
    assert end.type == "command.completed"
    assert end.data["exit"] == {"code": 3, "signal": None, "core": False}
    assert end.data["totals"] == {"stdin": 0, "stdout": 4, "stderr": 4, "pty": 0}
    assert end.event["correlationid"] == exec_id
    said = of(outsider.heard, f"cloche.log.{SANDBOX}.command.output.{exec_id}")
    assert sorted((event.data["stream"], event.data["data"]) for event in said) == [
        ("stderr", "err\n"),
        ("stdout", "out\n"),
    ]


async def test_input_and_signals_are_plain_json_too(outsider: Outsider) -> None:
    exec_id = await outsider.order("command.run", SANDBOX, {"shell": "head -1; echo on; sleep 600", "stdin": True})
    await outsider.order("command.input", SANDBOX, {"exec": exec_id, "data": "typed\n"})
    await outsider.until(lambda heard: any("on\n" in e.data["data"] for e in outputs(heard, exec_id)))
    await outsider.order("command.signal", SANDBOX, {"exec": exec_id, "signal": 9})
    (end,) = await outsider.until(lambda heard: ends(heard, SANDBOX, exec_id))
    assert end.data["exit"]["signal"] == 9
    assert await outsider.output(SANDBOX, exec_id) == "typed\non\n"


def outputs(heard: list[Heard], exec_id: str) -> list[Heard]:
    return of(heard, f"cloche.log.{SANDBOX}.command.output.{exec_id}")


@pytest.mark.parametrize("msg_id", [False, True], ids=["no-header", "nats-msg-id"])
async def test_one_id_published_many_times_at_once_runs_once(outsider: Outsider, msg_id: bool) -> None:
    mark = f"at-once-{msg_id}"
    order = {"shell": f"echo ran >> {mark}"}
    await asyncio.gather(*(outsider.order("command.run", SANDBOX, order, id_=mark, msg_id=msg_id) for _ in range(20)))
    assert await times_run(outsider, mark) == 1
    assert len(ends(outsider.heard, SANDBOX, mark)) == 1


@pytest.mark.parametrize("msg_id", [False, True], ids=["no-header", "nats-msg-id"])
async def test_one_id_published_again_while_it_runs_and_after_its_end_runs_once(
    outsider: Outsider, msg_id: bool
) -> None:
    mark = f"again-{msg_id}"
    order = {"shell": f"echo ran >> {mark}; head -1", "stdin": True}
    await outsider.order("command.run", SANDBOX, order, id_=mark, msg_id=msg_id)
    await outsider.until(lambda heard: of(heard, f"cloche.log.{SANDBOX}.command.started.{mark}"))
    await outsider.order("command.run", SANDBOX, order, id_=mark, msg_id=msg_id)
    await outsider.order("command.input", SANDBOX, {"exec": mark, "data": "end\n"})
    await outsider.until(lambda heard: ends(heard, SANDBOX, mark))
    await outsider.order("command.run", SANDBOX, order, id_=mark, msg_id=msg_id)
    assert await times_run(outsider, mark) == 1
    assert len(of(outsider.heard, f"cloche.log.{SANDBOX}.command.started.{mark}")) == 1
    assert len(ends(outsider.heard, SANDBOX, mark)) == 1


async def test_a_rejected_id_stays_rejected_once(outsider: Outsider) -> None:
    for _ in range(3):
        await outsider.order("command.run", SANDBOX, {"argv": ["no-such-program"]}, id_="refused")
    await times_run(outsider, "nothing")
    (end,) = ends(outsider.heard, SANDBOX, "refused")
    assert "no-such-program" in end.data["failure"]["message"]


async def test_one_creation_published_twice_is_one_sandbox(outsider: Outsider) -> None:
    for _ in range(2):
        await outsider.order("sandbox.create", "twice", {}, id_="make-twice", node="any")
    await outsider.order("sandbox.create", "twice", {}, id_="make-another", node="any")
    await outsider.until(lambda heard: of(heard, "cloche.log.twice.sandbox.started"))
    (letter,) = await outsider.until(lambda heard: of(heard, "cloche.log.twice.dead_letter.spawner.make-another"))
    assert "exists already" in letter.data["reason"]["message"]
    assert await outsider.run("twice", "echo one") == "one\n"
    assert len(of(outsider.heard, "cloche.log.twice.sandbox.created")) == 1
    assert not [each for each in letters(outsider.heard) if each.event["correlationid"] == "make-twice"]


async def test_the_state_can_be_asked_for(outsider: Outsider) -> None:
    exec_id = await outsider.order("command.run", SANDBOX, {"shell": "echo for the state"})
    await outsider.until(lambda heard: ends(heard, SANDBOX, exec_id))
    listed = (await outsider.ask("sandboxes"))["result"]["sandboxes"]
    assert SANDBOX in [state["sandbox"] for state in listed]
    state = (await outsider.ask("sandbox", json.dumps({"sandbox": SANDBOX}).encode()))["result"]
    assert (state["status"], state["node"]) == ("running", "local")
    query = {"sandbox": SANDBOX, "types": ["command.started"], "limit": 1000}
    events = (await outsider.ask("events", json.dumps(query).encode()))["result"]["events"]
    assert exec_id in [each["event"]["correlationid"] for each in events]
    terminal = (await outsider.ask("terminal", json.dumps({"sandbox": SANDBOX, "exec": exec_id}).encode()))["result"]
    assert [chunk["data"] for chunk in terminal["chunks"]] == ["for the state\n"]


@pytest.mark.parametrize(
    ("verb", "query", "words"),
    [
        ("sandbox", b'{"sandbox":"nobody"}', "no sandbox 'nobody'"),
        ("sandbox", b"{}", "missing required field `sandbox`"),
        ("sandbox", b'{"sandbox":7}', "Expected `str`"),
        ("sandboxes", b"\xff\x00 garbage", "not a valid ListSandboxes"),
        ("sandboxes", b"[" * 100_000, "not a valid ListSandboxes"),
        ("sandboxes", b'{"limit":100000}', "$.limit"),
        ("events", b'{"sandbox":"outside","types":["a.b.c > *"]}', "is not a name"),
        ("terminal", b'{"sandbox":"outside","exec":"never"}', "no command 'never'"),
        ("frobnicate", b"{}", "one of sandboxes, sandbox, events, terminal"),
    ],
)
async def test_a_bad_question_gets_an_answer_that_helps(
    outsider: Outsider, verb: str, query: bytes, words: str
) -> None:
    reply = await outsider.ask(verb, query)
    assert words in reply["failure"]["message"]
    assert "sandboxes" in (await outsider.ask("sandboxes"))["result"]
