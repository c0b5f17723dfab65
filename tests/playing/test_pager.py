"""What is paged, at a real terminal."""

import asyncio
import signal
from pathlib import Path

from tests.bus.servers import nats_in
from tests.cli.terminal import at_a_terminal
from tests.playing.past import create, record
from tests.playing.watching import shell_of


async def test_a_pager_is_ended_with_the_command_line_that_started_it(tmp_path: Path) -> None:
    def look() -> None:
        shell.env["PAGER"] = "less -+F"
        with at_a_terminal(shell, "show", "sb") as person:
            person.sees(b"(END)")
            person.process.send_signal(signal.SIGTERM)
            assert person.leaves() == 130

    async with nats_in(tmp_path) as server:
        await create(server)
        await record(server, outputs=[b"said\r\n"])
        shell = shell_of(server)
        await asyncio.to_thread(look)
