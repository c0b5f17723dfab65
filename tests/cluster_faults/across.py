"""Commands that run from before a strike until after it, one in each sandbox, and write all the while."""

import asyncio

from contracts.events.command import Stream
from infra.client import Cloche, Sandbox
from infra.client.execution import Execution
from tests.faults.stories import stories

TICK_S = 0.5
WORD = "word"
SCRIPT = f"""\
(n=0; while :; do n=$((n+1)); echo tick $n; sleep {TICK_S}; done) & ticker=$!
read word; kill $ticker; wait $ticker; echo $word
"""
"""Nothing ends it but what is written to it, or its death."""


class Across:
    """The strike `turn` of a story."""

    def __init__(self, sandboxes: list[Sandbox], turn: int) -> None:
        self._sandboxes = sandboxes
        self._turn = turn
        self._running: dict[str, Execution] = {}

    def _id(self, sandbox: Sandbox) -> str:
        return f"{sandbox.id}-across-{self._turn}"

    async def begin(self) -> None:
        """Returns when all of them run: the log has the first words of each."""
        await asyncio.gather(*(self._begin(sandbox) for sandbox in self._sandboxes))

    async def _begin(self, sandbox: Sandbox) -> None:
        execution = await sandbox.start(SCRIPT, id=self._id(sandbox), stdin=True)
        self._running[sandbox.id] = execution
        async for _ in execution.output():
            return
        raise AssertionError(f"{execution.id} ended before it said anything: {execution.result}")

    async def release(self, sandboxes: list[Sandbox]) -> None:
        """Once the strike is over: in these they are told to end. Returns when they have."""
        await asyncio.gather(*(self._release(self._running[each.id]) for each in sandboxes))

    async def _release(self, execution: Execution) -> None:
        await execution.write(f"{WORD}\n".encode())
        async for _ in execution.output():
            pass

    async def check(self, cloche: Cloche, *, died: str = "") -> None:
        """Each has told everything up to its end, which is its own; one on the node that `died` has told its death."""
        for sandbox in self._sandboxes:
            story = (await stories(cloche, sandbox.id))[self._id(sandbox)]
            *ticks, last = story.streams[Stream.STDOUT].decode().split("\n")
            assert (story.starts, last) == (1, ""), (self._turn, sandbox.id)
            if sandbox.state.node == died:
                assert (story.ends, story.code) == (["lost"], None), (self._turn, sandbox.id, story.ends)
                assert story.cause, (self._turn, sandbox.id)
            else:
                assert (story.ends, story.code) == (["completed"], 0), (self._turn, sandbox.id, story.cause)
                assert ticks.pop() == WORD, (self._turn, sandbox.id)
            assert ticks == [f"tick {number}" for number in range(1, len(ticks) + 1)], (self._turn, sandbox.id)
