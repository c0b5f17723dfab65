"""The page as it is written; `tests.browser` looks at it."""

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from contracts.errors import Invalid
from contracts.events.command import TerminalSize
from contracts.events.file import Action, FileBatch, FileChange, FileFacts
from infra.bus.publisher import append
from infra.export.page.page import page
from infra.export.page.records import BLOCK_BYTES
from infra.log.live import LiveView
from tests.bus.servers import Server, nats_in
from tests.export.casts import record_session
from tests.export.rig import tell
from tests.playing import past

pytestmark = pytest.mark.asyncio(loop_scope="module")

HEAD = '"specversion":"1.0","id":"x","source":"x","sandboxid":"odd","time":"2026-01-01T00:00:00Z"'
NO_BYTES = '"stream":"stdout","offset":0,"size":1,"data":"*","encoding":"base64"'
DATA = (r'{"said":"\ud800 alone"}', '{"a":' + "[" * 5000 + "]" * 5000 + "}", '{"many":' + "9" * 5000 + "}", "null")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    async with nats_in(tmp_path_factory.mktemp("page")) as running:
        yield running


async def pieces(server: Server, sandbox: str, exec_id: str | None = None, first: int = 1) -> list[bytes]:
    view = LiveView(await server.connect("client"))
    return [piece async for piece in page(view, sandbox, exec_id=exec_id, first=first)]


def records(written: list[bytes]) -> list[list[Any]]:
    blocks = re.findall(rb'<script type="application/json">(.*?)</script>', b"".join(written), re.DOTALL)
    return [record for block in blocks for record in json.loads(block)]


async def test_an_event_that_cannot_be_read_is_shown_as_it_stands(server: Server) -> None:
    executor = await server.connect("executor")
    for number, data in enumerate(DATA):
        payload = f'{{{HEAD},"type":"command.unheard_of","data":{data}}}'
        await append(executor, "cloche.log.odd.command.unheard_of.e1", payload.encode(), f"odd-{number}")
    items = [record for record in records(await pieces(server, "odd")) if record[0] == "item"]
    assert len(items) == len(DATA)
    assert "alone" in items[0][6][0]["text"]
    assert ["cannot be read" in item[5] for item in items] == [True, True, False, False]


async def test_an_event_that_nobody_can_reckon_with_is_shown_and_so_is_what_follows(server: Server) -> None:
    """Its time is beyond all times, its bytes are none: a page tells of both, and goes on."""
    odd = (
        ("agent", "agent.started", "r", '{"run":"r","runtime":"script","prompt":"go"}'),
        (
            "agent",
            "agent.approval_requested",
            "r",
            '{"run":"r","approval":"a","tool":"odd","expires_ms":99999999999999999}',
        ),
        ("executor", "command.started", "e1", '{"exec":"e1","argv":["cat"],"cwd":"/"}'),
        ("executor", "command.output", "e1", f'{{"exec":"e1",{NO_BYTES}}}'),
    )
    await past.create(server, "beyond")
    for number, (service, tag, scope, data) in enumerate(odd):
        payload = f'{{{HEAD.replace("odd", "beyond")},"type":"{tag}","data":{data}}}'
        writer = await server.connect(service)
        await append(writer, f"cloche.log.beyond.{tag}.{scope}", payload.encode(), f"beyond-{number}")
    await past.record(server, "beyond", outputs=[b"after"], exec="e2")
    told = records(await pieces(server, "beyond"))
    titles = [record[5] for record in told if record[0] == "item"]
    assert [title.split("  ")[0] for title in titles[2:5]] == ["approval_requested", "$ cat", "output"]
    assert [record[4] for record in told if record[0] == "end"] == ["after", ""]


async def test_large_events_leave_one_by_one(server: Server) -> None:
    diff = "+" + "x" * 60_000 + "\n"
    changes = [
        FileChange(action=Action.CREATED, path=f"/{n}", facts=FileFacts(size=1, mode=1, diff=diff)) for n in range(14)
    ]
    for number in range(6):
        await tell(server, "file_watcher", "large", FileBatch(changes=tuple(changes)), number)
    written = await pieces(server, "large")
    assert sum(record[0] == "item" for record in records(written)) == 6
    assert max(map(len, written)) < 3 * BLOCK_BYTES


async def test_a_command_that_is_not_there_is_said(server: Server, tmp_path: Path) -> None:
    await record_session(server)
    assert records(await pieces(server, "sb", "e2"))
    with pytest.raises(Invalid, match="has no command 'e9'"):
        await pieces(server, "sb", "e9")


async def test_a_part_begins_with_what_was_on_the_screen(server: Server) -> None:
    sequences = await past.record(server, "part", outputs=[b"one\r\n", b"two\r\n"], pty=TerminalSize(rows=5, cols=33))
    told = records(await pieces(server, "part", first=sequences[2]))
    key = next(record for record in told if record[0] == "key")
    assert key[1:5] == [0, sequences[2], 33, 5]
    assert [line[0] for line in key[5] if line] == ["$ make test", "one", "two"]
    assert [record[2] for record in told if record[0] == "item"] == []
