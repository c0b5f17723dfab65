"""Orders over a WebSocket: each has an answer that names it, and stands in the log with whoever asked."""

from pathlib import Path

from contracts.access import Role
from services.gateway.live.orders import ORDERS
from tests.gateway.live.client import following
from tests.gateway.rig import gateway_in
from tests.services.node import Service

STEERING = tuple(name for name, known in ORDERS.items() if known.needed != Role.VIEWER)
READING = {"request_files", "request_terminal"}


def test_all_but_reading_takes_an_operator() -> None:
    assert set(ORDERS) - set(STEERING) == READING


async def test_a_command_is_run_typed_into_resized_and_looked_at(tmp_path: Path) -> None:
    async with gateway_in(tmp_path) as gateway:
        sandbox = await gateway.cloche.create()
        async with following(gateway, sandbox.id) as follower:
            begun = await follower.order(
                "run", shell="read line; stty size; echo got $line", pty={"rows": 5, "cols": 7}
            )
            assert begun["type"] == "result", begun
            exec_id = begun["payload"]["exec"]
            await follower.until("event", event_type="command.started")
            assert (await follower.order("resize", exec=exec_id, rows=30, cols=70))["type"] == "result"
            assert (await follower.order("input", exec=exec_id, data="hello\n"))["type"] == "result"
            await follower.until("event", event_type="command.completed")
            shown = (await follower.order("request_terminal", exec=exec_id, lines=10))["payload"]
            assert "30 70" in "\n".join(shown["lines"])
            assert "got hello" in "\n".join(shown["lines"])


async def test_files_are_listed_and_a_command_is_signalled(tmp_path: Path) -> None:
    async with gateway_in(tmp_path) as gateway:
        sandbox = await gateway.cloche.create()
        async with following(gateway, sandbox.id) as follower:
            assert (await follower.order("request_files"))["payload"]["entries"] == []
            begun = await follower.order("run", shell="echo x > made; echo done; exec sleep 1000")
            await follower.until("event", event_type="command.output")
            listed = (await follower.order("request_files"))["payload"]
            assert [entry["path"] for entry in listed["entries"]] == ["made"]
            await follower.order("signal", exec=begun["payload"]["exec"], signal=9)
            ended = await follower.until("event", event_type="command.completed")
            assert ended["data"]["data"]["exit"]["signal"] == 9


async def test_a_viewer_reads_and_is_refused_the_rest_by_id_while_the_connection_stays(tmp_path: Path) -> None:
    async with gateway_in(tmp_path) as gateway:
        sandbox = await gateway.cloche.create()
        async with following(gateway, sandbox.id, gateway.token(Role.VIEWER)) as follower:
            for command in STEERING:
                assert (await follower.order(command))["code"] == "FORBIDDEN", command
            for command, payload in (
                ("run", {"shell": "true"}),
                ("input", {"exec": "e", "data": "x"}),
                ("send_message", {"text": "hello"}),
                ("pause", {"target": "sandbox"}),
                ("approve", {"approval": "a", "target": "network"}),
            ):
                assert (await follower.order(command, **payload))["code"] == "FORBIDDEN"
            answer = await follower.order("request_files")
            assert answer["type"] == "result", answer
            await sandbox.run("true")
            await follower.until("event", event_type="command.completed")
        told = [event.head.type async for event in sandbox.events()]
        assert told.count("command.started") == 1
        assert not [each for each in told if each.startswith(("user.", "dead_letter.", "sandbox.paused"))]


async def test_the_same_key_is_the_same_order_and_the_log_knows_who_asked(tmp_path: Path) -> None:
    async with gateway_in(tmp_path) as gateway:
        sandbox = await gateway.cloche.create()
        execs = []
        for _ in range(2):
            async with following(gateway, sandbox.id, gateway.token(subject="ann@example.com")) as follower:
                await follower.say(type="command", id="1", key="k", command="run", payload={"shell": "echo once"})
                execs.append((await follower.until("result", id="1"))["payload"]["exec"])
        await sandbox.execution(execs[0]).wait()
        started = [event async for event in sandbox.events(types=["command.started"])]
        assert execs[0] == execs[1]
        assert len(started) == 1


async def test_a_sandbox_is_paused_and_resumed(tmp_path: Path) -> None:
    async with gateway_in(tmp_path) as gateway:
        sandbox = await gateway.cloche.create()
        async with following(gateway, sandbox.id) as follower:
            assert (await follower.order("pause", target="sandbox"))["payload"] == {"status": "paused"}
            assert (await follower.order("resume", target="sandbox"))["payload"] == {"status": "running"}


async def test_an_agent_is_spoken_to_interrupted_and_answered(tmp_path: Path) -> None:
    async with gateway_in(tmp_path) as gateway:
        gateway.node.services["agent"] = Service("agent", tmp_path, {})
        await gateway.node.services["agent"].start()
        sandbox = await gateway.cloche.create()
        async with following(gateway, sandbox.id) as follower:
            assert (await follower.order("send_message", text="nobody"))["code"] == "SANDBOX_INVALID_STATE"
            script = '[{"wait": {"message": true}}, {"run": "sleep 1000"}]'
            run = await sandbox.agent.start("script", "be there", options={"script": script})
            said = await follower.order("send_message", text="are you there?")
            assert said["payload"]["run"] == run.id, said
            heard = await follower.until("event", event_type="user.message")
            assert heard["sequence"] == said["payload"]["sequence"]
            assert heard["data"]["data"]["by"] == "gateway/tester"
            await follower.until("event", event_type="command.started")
            assert (await follower.order("interrupt", reason="enough"))["type"] == "result"
            assert (await follower.order("approve", approval="never-asked"))["code"] == "INVALID"
