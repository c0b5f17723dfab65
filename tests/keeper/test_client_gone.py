"""A keeper that goes away between two lines of its client."""

import asyncio
import socket
from pathlib import Path

import uvloop

from contracts.errors import Unavailable
from infra.keeper.client import KeeperClient
from infra.keeper.layout import Layout


async def _ask_while_it_goes(data: Path) -> list[BaseException | object]:
    client = await KeeperClient.connect(data)
    asked = []
    client._writer.transport.abort()
    for _ in range(20):
        asked.append(asyncio.ensure_future(client.hello()))
        await asyncio.sleep(0)
    answers = await asyncio.gather(*asked, return_exceptions=True)
    await client.aclose()
    return list(answers)


def test_every_question_to_a_keeper_that_goes_away_is_told_that_it_is_unavailable(tmp_path: Path) -> None:
    """Under uvloop, as in the services: it raises RuntimeError for a write to what is closed."""
    layout = Layout.of(tmp_path)
    layout.prepare()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(layout.socket))
        server.listen()
        answers = uvloop.run(_ask_while_it_goes(tmp_path))
    assert {type(answer) for answer in answers} == {Unavailable}, answers
