"""States of sandboxes that this log does not have as a whole: imported ones, and those it has forgotten."""

import datetime
from pathlib import Path

import pytest

from contracts import subjects
from contracts.errors import Invalid, SandboxNotFound
from contracts.events.agent import AgentMessage
from contracts.events.sandbox import SandboxStopped
from contracts.past import GetStateAt
from contracts.state import Status
from contracts.streams import LOG_STREAM
from infra.client.imports import import_file
from infra.log.live import LiveView
from services.replay.past.folder import Folder
from services.replay.past.snapshots import Snapshots
from services.replay.past.state import StateInTime
from services.replay.past.store import SnapshotStore
from services.replay.read_model import ReadModel
from tests.bus.servers import Server, nats_in
from tests.export.rig import exported, taking_imports
from tests.replay.logs import UP, fold_all, knows, model_on, write


async def states_of(server: Server, model: ReadModel, folds: Path) -> StateInTime:
    folder = Folder(Snapshots(SnapshotStore(folds, "v1", max_bytes=1 << 20)), every=10)
    return StateInTime(await server.connect("replay"), folder, model.projection, health_s=30)


async def test_an_imported_sandbox_is_told_as_in_its_own_log(tmp_path: Path) -> None:
    async with nats_in(tmp_path / "a") as here, nats_in(tmp_path / "b") as there:
        admin = await here.connect("admin")
        await write(admin, "noise", *UP)
        first = await write(admin, "sb", UP[0])
        last = await write(admin, "sb", *UP[1:], *(AgentMessage(run="r", text=f"{each}") for each in range(40)))
        file = tmp_path / "sb.jsonl"
        await exported(LiveView(admin), file, "sb")
        async with taking_imports(there), model_on(there) as model:
            await import_file(await there.connect("client"), file)
            states = await states_of(there, model, tmp_path / "folds")
            for sequence in (last, first, last - 7, first + 1):
                told = await states.at(GetStateAt(sandbox="sb", at=sequence))
                expected = await fold_all(admin, "sb", sequence)
                assert expected is not None
                assert (told.state, told.conversation) == (expected.state, expected.conversation)
            entry = await LiveView(admin).first(subjects.events_of("sb")[0], start=last - 3)
            assert entry is not None
            told = await states.at(GetStateAt(sandbox="sb", time=entry.time))
            assert (told.state.applied_sequence, told.use) == (last - 3, None)
            with pytest.raises(SandboxNotFound):
                await states.at(GetStateAt(sandbox="noise"))


async def test_of_a_sandbox_whose_beginning_is_forgotten_it_is_told_how_it_is_now(tmp_path: Path) -> None:
    async with nats_in(tmp_path / "data") as server:
        admin = await server.connect("admin")
        await write(admin, "sb", *UP)
        last = await write(admin, "sb", *(AgentMessage(run="r", text=f"{each}") for each in range(8)))
        async with model_on(server) as model:
            await knows(model, ["sb"], last)
            config = (await admin.api(f"STREAM.INFO.{LOG_STREAM}"))["config"]
            await admin.api(f"STREAM.UPDATE.{LOG_STREAM}", config | {"max_msgs": 4})
            last = await write(admin, "sb", SandboxStopped(reason="asked"))
            await knows(model, ["sb"], last)
            states = await states_of(server, model, tmp_path / "folds")
            told = await states.at(GetStateAt(sandbox="sb"))
            assert (told.sequence, told.state) == (last, model.projection.get("sb"))
            assert told.state.status == Status.STOPPED
            assert [line.text for line in told.conversation.lines] == ["5", "6", "7"]
            with pytest.raises(Invalid, match="has forgotten how 'sb' began"):
                await states.at(GetStateAt(sandbox="sb", at=last - 1))
            with pytest.raises(Invalid, match="name one"):
                await states.at(GetStateAt(sandbox="sb", at=1, time=datetime.datetime.now(datetime.UTC)))
