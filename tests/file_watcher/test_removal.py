"""The removal of a workspace is no work on its files."""

import os
from pathlib import Path

import pytest

from contracts.errors import ClocheError
from contracts.events.sandbox import SandboxRecovering
from infra.journal import Journal
from infra.sandbox.docker import filling
from infra.sandbox.docker.layout import DataFiles
from tests.file_watcher.rig import following, told
from tests.file_watcher.shell import sh

KEY = "0123456789ab"


async def test_of_a_docker_workspace_that_is_half_removed_nothing_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = DataFiles(tmp_path / "node")

    def remove_half(place: Path) -> None:
        for found in place.rglob("a"):
            found.unlink()

    async with following(tmp_path, started=False) as followed:
        followed.root = filling.make_workspace(data, KEY)
        await followed.start()
        sh(followed.root, "echo 1 > a; echo 1 > b")
        last = await followed.flush()
        monkeypatch.setattr(filling, "remove_tree", remove_half)
        filling.discard_workspace(data, KEY)
        with pytest.raises(ClocheError):
            await followed.flush(manifest=True)
        await followed.stop()
        await followed.start()
        with pytest.raises(ClocheError):
            await followed.flush()
        assert await told(followed.bus, last) == set()
        monkeypatch.undo()
        filling.make_workspace(data, KEY)
        filling.discard_workspace(data, KEY)
        assert not data.container(KEY).exists()


async def test_of_a_workspace_that_is_being_made_anew_nothing_is_told(tmp_path: Path) -> None:
    async with following(tmp_path) as followed, await followed.connect("spawner") as bus:
        sh(followed.root, "echo 1 > a; echo 1 > b")
        last = await followed.flush()
        await followed.stop()
        journal = Journal(bus, service="spawner", node="local")
        recovering = SandboxRecovering(attempt=1, reason="it died", node="local", sequence=last)
        await journal.append(journal.write("sb", recovering, id="recovering"))
        os.unlink(followed.root / "a")
        await followed.start()
        with pytest.raises(ClocheError):
            await followed.flush()
        assert await told(followed.bus, last) == set()
