"""`cloche mcp`: the tools of a sandbox for an agent that lives outside, by the official client."""

import asyncio
import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from mcp import Client, MCPError
from mcp_types import INVALID_PARAMS

from contracts.commands.command import Asker
from contracts.events.command import CommandCancelled, CommandOutput, CommandStarted, Stream
from contracts.proof import Proof
from infra.client import Cloche, Sandbox
from services.mcp.app import AT_ONCE, make_server
from services.mcp.profiles import Profile
from services.mcp.wire import MAX_LINE
from tests.mcp.clients import Speaker, agent, answered, image, refused, text
from tests.mcp.hostile_arguments import HOSTILE
from tests.mcp.record import begun, facts, running, until, until_there
from tests.services.node import Node, eventually, node_in

pytestmark = pytest.mark.asyncio(loop_scope="module")

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
LOOKING = ["read", "glob", "grep"]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def home(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[Node, Cloche]]:
    async with node_in(tmp_path_factory.mktemp("node")) as (node, cloche):
        yield node, cloche


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox(home: tuple[Node, Cloche]) -> Sandbox:
    sandbox = await home[1].create(id="sb")
    await sandbox.files.write("a", "a a")
    await sandbox.files.mkdir("src")
    return sandbox


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def coder(
    home: tuple[Node, Cloche], sandbox: Sandbox, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Client]:
    errors = tmp_path_factory.mktemp("coder") / "errors"
    async with agent(home[0], "--sandbox", sandbox.id, errors=errors) as client:
        yield client


async def test_explore_only_looks_and_code_also_changes(
    home: tuple[Node, Cloche], sandbox: Sandbox, coder: Client, tmp_path: Path
) -> None:
    """The explorer gets its sandbox from the environment, and speaks an older version of the protocol."""
    env = {"CLOCHE_SANDBOX": sandbox.id}
    async with agent(home[0], "--profile", "explore", errors=tmp_path / "errors", mode="legacy", env=env) as explorer:
        looking, all_tools = (await explorer.list_tools()).tools, (await coder.list_tools()).tools
        assert [tool.name for tool in looking] == LOOKING
        assert [tool.name for tool in all_tools] == [*LOOKING, "write", "edit", "run"]
        for tool in all_tools:
            hints = tool.annotations
            assert hints is not None
            assert hints.read_only_hint is (tool.name in LOOKING)
            assert hints.destructive_hint is (tool.name not in LOOKING)
            assert hints.idempotent_hint is (tool.name in [*LOOKING, "write"])
            assert hints.open_world_hint is (tool.name == "run")
        await sandbox.files.write("seen", "by both\n")
        assert (await answered(explorer, "read", path="seen"))["content"] == "by both\n"
        with pytest.raises(MCPError, match="there is no tool 'write' here, only read, glob, grep") as error:
            await explorer.call_tool("write", {"path": "x", "content": "x"})
        assert error.value.code == INVALID_PARAMS


async def test_what_a_model_may_say_is_bounded_and_never_names_the_sandbox(coder: Client) -> None:
    for tool in (await coder.list_tools()).tools:
        schema = tool.input_schema
        assert schema["additionalProperties"] is False
        assert "sandbox" not in schema["properties"]
        for name, each in schema["properties"].items():
            bounds = {"string": {"maxLength"}, "integer": {"minimum", "maximum"}, "object": {"maxProperties"}}
            assert bounds.get(each["type"], set()) <= each.keys(), (tool.name, name)
            assert "?!" not in each.get("pattern", ""), "not every reader knows look-ahead"


async def test_every_tool_does_its_work_and_all_of_it_is_on_the_record(coder: Client, sandbox: Sandbox) -> None:
    before = len(await facts(sandbox, "tool"))
    written = await answered(coder, "write", path="src/a.py", content="one\ntwo\nthree\n")
    assert written == {"path": "/workspace/src/a.py", "bytes": 14, "created": True}
    read = await answered(coder, "read", path="/workspace/src/a.py", offset=2, limit=1)
    assert (read["content"], read["first_line"], read["total_lines"], read["next_offset"]) == ("two\n", 2, 3, 3)
    edited = await answered(coder, "edit", path="src/a.py", old="two", new="2")
    assert (edited["replacements"], edited["first_line"], edited["bytes"]) == (1, 2, 12)
    found = await answered(coder, "glob", pattern="**/*.py")
    assert found["entries"] == [{"path": "/workspace/src/a.py", "kind": "file", "size": 12}]
    searched = await answered(coder, "grep", pattern="^T", ignore_case=True, context=1, files="*.py")
    (match,) = searched["matches"]
    assert (match["line"], match["text"], match["before"]) == (3, "three", ["2"])
    calls = [fact for _, fact in (await facts(sandbox, "tool"))[before:]]
    names = ["write", "read", "edit", "glob", "grep"]
    assert [(type(fact).__name__, getattr(fact, "tool", "")) for fact in calls] == [
        (kind, name) for name in names for kind in ("ToolInvoked", "ToolReturned")
    ]


async def test_a_command_is_one_of_the_sandbox_asked_for_by_an_agent(
    coder: Client, sandbox: Sandbox, home: tuple[Node, Cloche]
) -> None:
    line = "echo $WHO in $PWD; echo bad >&2; exit 3"
    result = await coder.call_tool("run", {"command": line, "cwd": "src", "env": {"WHO": "me"}})
    ran: dict[str, Any] = result.structured_content
    assert not result.is_error, "a failed command is a result"
    assert (ran["outcome"], ran["exit_code"], ran["signal"], ran["timed_out"]) == ("completed", 3, None, False)
    assert (ran["stdout"], ran["stderr"], ran["truncated"]) == ("me in /workspace/src\n", "bad\n", False)
    assert text(result).startswith("me in /workspace/src\n[stderr]\nbad\n[exit code 3 after ")
    started = await until(home[1], sandbox, ran["exec"], CommandStarted)
    assert isinstance(started, CommandStarted)
    assert (started.asker, started.timeout_ms) == (Asker.AGENT, 120_000)
    proof = Proof()
    async for event in sandbox.events():
        proof.feed(event.sequence, event.head)
    assert proof.summary().findings == ()


async def test_a_long_text_comes_in_parts_and_each_says_how_to_go_on(coder: Client, sandbox: Sandbox) -> None:
    await sandbox.files.write("long", "".join(f"line {n}\n" for n in range(1, 5001)))
    result = await coder.call_tool("read", {"path": "long"})
    assert text(result).endswith("\n[lines 1 to 2000 of 5000; go on with offset=2001]")
    assert "[lines" not in result.structured_content["content"]
    by_size = await answered(coder, "read", path="long", limit=20_000)
    assert by_size["truncated_by"] is None
    await sandbox.files.write("wide", "x" * 100_000 + "\nnext\n")
    cut = await coder.call_tool("read", {"path": "wide"})
    assert len(cut.structured_content["content"]) == 64 * 1024
    assert "[line 1 is too long and was cut; go on with offset=2]" in text(cut)
    beyond = await coder.call_tool("read", {"path": "long", "offset": 9000})
    assert text(beyond) == "[/workspace/long has only 5000 lines]"
    await sandbox.files.write("nothing", "")
    assert text(await coder.call_tool("read", {"path": "nothing"})) == "[/workspace/nothing is empty]"


async def test_an_image_is_an_image_and_other_bytes_are_not_put_before_a_model(coder: Client, sandbox: Sandbox) -> None:
    await sandbox.files.write("a.png", PNG)
    shown = await coder.call_tool("read", {"path": "a.png"})
    assert base64.b64decode(image(shown).data) == PNG
    assert image(shown).mime_type == "image/png"
    assert shown.structured_content["content"] == ""
    await sandbox.files.write("blob", b"\0\1\2" * 100)
    assert "300 bytes, not a text]" in text(await coder.call_tool("read", {"path": "blob"}))
    await sandbox.files.write("latin", b"caf\xe9\n")
    assert (await answered(coder, "read", path="latin"))["content"] == "caf\\xe9\n"


async def test_many_files_and_many_matches_are_cut_and_say_how_to_get_the_rest(coder: Client, sandbox: Sandbox) -> None:
    await sandbox.run("mkdir many; cd many; for i in $(seq 100 129); do echo same > f$i; done")
    first = await coder.call_tool("glob", {"pattern": "*", "path": "many", "limit": 20})
    cursor = first.structured_content["next"]
    assert f"go on with after={cursor!r}" in text(first)
    rest = await answered(coder, "glob", pattern="*", path="many", after=cursor)
    paths = [entry["path"] for entry in [*first.structured_content["entries"], *rest["entries"]]]
    assert paths == [f"/workspace/many/f{n}" for n in range(100, 130)]
    assert rest["next"] is None
    cut = await coder.call_tool("grep", {"pattern": "same", "path": "many", "limit": 7})
    assert len(cut.structured_content["matches"]) == 7
    assert text(cut).endswith(
        "\n[there are more matches: raise `limit`, or search in one `path` or only in `files` like a pattern]"
    )
    assert text(await coder.call_tool("grep", {"pattern": "other", "path": "many"})) == "[nothing matches in 30 files]"


async def test_of_long_output_the_beginning_and_the_end_are_shown_and_the_log_has_all(
    coder: Client, sandbox: Sandbox
) -> None:
    result = await coder.call_tool("run", {"command": "echo first; head -c 3000000 /dev/zero | tr '\\0' x; echo last"})
    ran: dict[str, Any] = result.structured_content
    assert (ran["truncated"], ran["stdout_bytes"]) == (True, 3_000_011)
    assert ran["stdout"].startswith("first\n")
    assert ran["stdout"].endswith("xlast\n")
    assert len(text(result)) < 40_000
    assert "run it again with `> FILE 2>&1`" in text(result)
    outputs = [fact for _, fact in await facts(sandbox, "command.output") if isinstance(fact, CommandOutput)]
    assert sum(out.size for out in outputs if out.exec == ran["exec"] and out.stream == Stream.STDOUT) == 3_000_011


async def test_a_command_is_ended_at_its_time_limit_with_all_that_it_started(coder: Client, sandbox: Sandbox) -> None:
    result = await coder.call_tool("run", {"command": "sleep 7777 & exec sleep 7777", "timeout_ms": 200})
    assert not result.is_error
    ran: dict[str, Any] = result.structured_content
    assert (ran["outcome"], ran["timed_out"], ran["exit_code"]) == ("timed_out", True, None)
    assert "[timed_out: its time limit of 200 ms is over; ended by signal 15 after " in text(result)
    assert await running(sandbox, "sleep 7777") == []


async def test_hostile_input_is_refused_with_a_code_and_nothing_runs(coder: Client, sandbox: Sandbox) -> None:
    await sandbox.run("ln -s /etc/passwd way_out")
    commands = len(await facts(sandbox, "command.started"))
    for tool, arguments, code in HOSTILE:
        error = await refused(coder, tool, arguments)
        assert (error["code"], error["retryable"]) == (code, False), (tool, str(arguments)[:200], error)
        assert len(error["message"]) < 1000
    assert len(await facts(sandbox, "command.started")) == commands
    assert (await answered(coder, "read", path="a"))["content"] == "a a"


async def test_a_sandbox_that_is_missing_from_the_context_is_not_worth_another_try(home: tuple[Node, Cloche]) -> None:
    _, cloche = home
    doomed = await cloche.create(id="doomed")
    async with Client(make_server(cloche, doomed.id, Profile.CODE)) as client:
        await doomed.stop(grace_ms=0)
        assert (await answered(client, "glob", pattern="*"))["entries"] == []
        assert (await refused(client, "run", {"command": "ls"}))["code"] == "SANDBOX_INVALID_STATE"
        await doomed.remove()
        await lacks_context(client, "'doomed' is removed")
    for given, said in (
        (None, "no sandbox was given"),
        ("", "no sandbox was given"),
        ("nowhere", "no sandbox 'nowhere'"),
        ("*", "not a sandbox id"),
    ):
        async with Client(make_server(cloche, given, Profile.CODE)) as client:
            assert len((await client.list_tools()).tools) == 6
            await lacks_context(client, said)


async def lacks_context(client: Client, said: str) -> None:
    for tool, arguments in (("read", {"path": "x"}), ("run", {"command": "ls"})):
        error = await refused(client, tool, arguments)
        assert (error["code"], error["retryable"]) == ("CONTEXT_MISSING", False)
        assert said in error["message"]
        assert "--sandbox" in error["message"]


async def test_a_cancelled_request_cancels_its_command_with_the_whole_tree(
    coder: Client, sandbox: Sandbox, home: tuple[Node, Cloche]
) -> None:
    stubborn = "trap '' TERM; (trap '' TERM; sleep 8888; true) & sleep 8888 & echo mark1; wait"
    heard: list[str] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        assert total == 120.0
        heard.append(message or "")

    asking = asyncio.create_task(coder.call_tool("run", {"command": stubborn}, progress_callback=hear))
    exec_id = await begun(sandbox, "mark1")
    await eventually(lambda: any("6 bytes of output" in message for message in heard))
    assert all(exec_id in message for message in heard)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    cancelled = await until(home[1], sandbox, exec_id, CommandCancelled)
    assert isinstance(cancelled, CommandCancelled)
    assert cancelled.cause == "nobody waits for it any more"
    assert await running(sandbox, "sleep 8888") == []
    assert (await answered(coder, "run", command="echo alive"))["stdout"] == "alive\n"


async def test_calls_go_on_beside_each_other_up_to_a_bound(coder: Client, sandbox: Sandbox) -> None:
    waiting = [
        asyncio.create_task(answered(coder, "run", command=f"echo here{n}.; {until_there('gate')}; echo {n}"))
        for n in range(AT_ONCE)
    ]
    await asyncio.gather(*(begun(sandbox, f"here{n}.") for n in range(AT_ONCE)))
    error = await refused(coder, "read", {"path": "a"})
    assert (error["code"], error["retryable"]) == ("UNAVAILABLE", True)
    await sandbox.files.write("gate", "")
    ran = await asyncio.gather(*waiting)
    assert [each["stdout"] for each in ran] == [f"here{n}.\n{n}\n" for n in range(AT_ONCE)]
    assert (await answered(coder, "read", path="a"))["content"] == "a a"


async def test_restarts_of_nats_and_of_services_are_waited_out(
    coder: Client, sandbox: Sandbox, home: tuple[Node, Cloche]
) -> None:
    node, cloche = home
    waiting = asyncio.create_task(answered(coder, "run", command=f"echo mark2; {until_there('later')}; echo done"))
    await begun(sandbox, "mark2")
    await node.services["executor"].kill()
    epoch = cloche.bus.epoch
    node.kill_server()
    calls = [
        asyncio.create_task(answered(coder, "read", path="a")),
        asyncio.create_task(answered(coder, "write", path="after", content="restart\n")),
        asyncio.create_task(answered(coder, "run", command="echo second")),
    ]
    await eventually(lambda: cloche.bus.epoch > epoch)
    await node.services["executor"].start()
    assert (await calls[0])["content"] == "a a"
    assert (await calls[1])["bytes"] == 8
    await sandbox.files.write("later", "")
    assert (await waiting)["stdout"] == "mark2\ndone\n"
    assert (await calls[2])["stdout"] == "second\n"


async def test_told_to_end_it_ends_cleanly_and_leaves_no_command_behind(
    home: tuple[Node, Cloche], sandbox: Sandbox
) -> None:
    async with Speaker.of(home[0], "--sandbox", sandbox.id) as speaker:
        await speaker.greet()
        exec_id = await asked_for_long(speaker, sandbox, "mark3")
        speaker.process.terminate()
        assert await speaker.ended() == 0
    await until(home[1], sandbox, exec_id, CommandCancelled)
    assert await running(sandbox, "sleep 9999") == []


async def asked_for_long(speaker: Speaker, sandbox: Sandbox, mark: str) -> str:
    """The exec id of a command that would go on."""
    command = f"echo {mark}; sleep 9999 & sleep 9999"
    speaker.ask("long", "tools/call", name="run", arguments={"command": command})
    return await begun(sandbox, mark)


async def test_lines_that_are_no_messages_harm_nobody_and_their_end_is_the_end(
    home: tuple[Node, Cloche], sandbox: Sandbox
) -> None:
    async with Speaker.of(home[0], "--sandbox", sandbox.id) as speaker:
        await speaker.greet()
        for line, about in [
            (b"\xff\xfe garbage", None),
            (b"{", None),
            (b"[" * 100_000, None),
            (b'"text"', None),
            (b'{"jsonrpc": "2.0", "id": 5, "method": 7}', 5),
            (b'{"jsonrpc": "2.0", "id": "x\\ud800", "method": "ping"}', None),
            (b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"x": "\\ud800"}}', 1),
            (b'{"jsonrpc": "2.0", "id": 2, "method": "ping", "params": {"x": "' + b"x" * MAX_LINE + b'"}}', None),
        ]:
            speaker.say_bytes(line)
            complaint = await speaker.hear()
            assert "error" in complaint, line[:80]
            assert complaint["id"] == about, line[:80]
            assert len(line) < MAX_LINE or "16777216 bytes at most" in complaint["error"]["message"]
        speaker.say_bytes(b'\n{"jsonrpc": "2.0", "id": {}, "method": "ping"}\n{"jsonrpc": "2.0", "method": "nonsense"}')
        for number in range(3000):
            speaker.ask(number, "ping")
        # More answers than the pipe holds: nothing was read meanwhile, and nothing is lost.
        answers = [await speaker.hear() for _ in range(3000)]
        assert sorted(answer["id"] for answer in answers) == list(range(3000))
        speaker.ask("last", "tools/call", name="read", arguments={"path": "a"})
        assert (await speaker.hear())["result"]["structuredContent"]["content"] == "a a"
        exec_id = await asked_for_long(speaker, sandbox, "mark4")
        speaker.stdin.close()
        assert await speaker.ended() == 0
    await until(home[1], sandbox, exec_id, CommandCancelled)
    assert await running(sandbox, "sleep 9999") == []
