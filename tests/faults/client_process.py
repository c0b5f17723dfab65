"""A client that can be killed."""

import asyncio
import os

from infra.client import Cloche
from tests.faults.stories import exec_id, script
from tests.forking import Birth, fork
from tests.services.node import Node


class Client:
    """A process of its own that asks for a command and follows it."""

    def __init__(self, node: Node, sandbox: str, number: int) -> None:
        """Returns once the server has the order."""
        env = {**os.environ, "CLOCHE_DATA": str(node.data)}
        reading, writing = os.pipe()
        with open(reading, "rb") as said:
            try:
                self._process = fork(Birth(env, os.getcwd(), (0, writing, 2)), _follow, sandbox, number)
            finally:
                os.close(writing)
            assert said.readline() == b"asked\n"

    def kill(self) -> None:
        self._process.kill()
        self._process.join()


def _follow(sandbox: str, number: int) -> None:
    async def follow() -> None:
        async with Cloche.connect() as cloche:
            execution = await (await cloche.sandbox(sandbox)).start(script(number), id=exec_id(sandbox, number))
            print("asked", flush=True)
            await execution.wait()

    asyncio.run(follow())
