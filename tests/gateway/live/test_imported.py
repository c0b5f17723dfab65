"""Of a sandbox that was brought from elsewhere there is its history, and nothing to be done."""

from pathlib import Path

from contracts.events.agent import AgentMessage
from infra.client.imports import import_file
from infra.log.live import LiveView
from tests.bus.servers import nats_in
from tests.export.rig import exported
from tests.gateway.live.client import following
from tests.gateway.rig import gateway_in
from tests.replay.logs import UP, write


async def test_an_imported_sandbox_is_told_with_its_own_sequences_and_the_connection_stays(tmp_path: Path) -> None:
    async with nats_in(tmp_path / "there") as there, gateway_in(tmp_path / "here") as gateway:
        admin = await there.connect("admin")
        await write(admin, "noise", *UP)
        await write(admin, "sb", *UP, *(AgentMessage(run="r", text=f"{each}") for each in range(20)))
        await exported(LiveView(admin), tmp_path / "sb.jsonl", "sb")
        stored = [entry.seq async for entry in LiveView(admin).read(["cloche.log.sb.>"])]
        await import_file(gateway.cloche.bus, tmp_path / "sb.jsonl")
        async with following(gateway, "sb", from_=1) as follower:
            told = [(await follower.until("event"))["sequence"] for _ in stored]
            assert told == stored
            assert (await follower.order("run", shell="true"))["code"] == "SANDBOX_INVALID_STATE"
            assert (await follower.order("send_message", text="hello"))["code"] == "SANDBOX_INVALID_STATE"
            await follower.say(type="subscribe", types=["agent"], **{"from": stored[5]})
            await follower.until("subscribed")
            assert (await follower.until("event"))["sequence"] == stored[5]
