"""Whoever waits for an export sees how far it has come."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from infra.client import Cloche
from services.cli import exporting
from services.cli.exporting import Format, Wanted, export_session
from services.cli.progress_line import ProgressLine
from tests.bus.servers import nats_in
from tests.export.rig import a_session

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cloche(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cloche]:
    async with nats_in(tmp_path_factory.mktemp("progress")) as server:
        await a_session(server)
        yield Cloche(await server.connect("client"))


@pytest.mark.parametrize("kind", Format)
async def test_every_format_tells_how_much_of_the_log_is_written(
    cloche: Cloche, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Format
) -> None:
    told: list[tuple[int, int]] = []

    class Heard(ProgressLine):
        def at(self, done: int, whole: int) -> None:
            told.append((done, whole))

    monkeypatch.setattr(exporting, "ProgressLine", Heard)
    wanted = Wanted("sb", False, str(tmp_path / "out"), kind, None, None, None, None, True)
    await export_session(cloche, wanted)
    assert len(told) > 10
    assert told == sorted(told)
    # A cast has no use for what comes after the last command.
    assert told[-1][1] // 2 < told[-1][0] <= told[-1][1]
    assert (tmp_path / "out").stat().st_size > 0
