"""Who is in a hurry takes turns, so that everything else in the process goes on in between."""

import asyncio


class Turns:
    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def wait(self) -> None:
        """Until all others that wait have had their turn: one at each round of the loop."""
        async with self._turn:
            await asyncio.sleep(0)
