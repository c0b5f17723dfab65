"""Long requests wait for their turn; one sandbox cannot have all of them."""

import asyncio
from collections.abc import Callable

import pytest

from contracts.errors import Unavailable
from infra.files.turns import Turns


class Working:
    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self.busy: list[str] = []
        self.may_end = asyncio.Event()

    async def work(self, sandbox: str) -> None:
        async with self._turns.turn(sandbox):
            self.busy.append(sandbox)
            await self.may_end.wait()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0)


async def test_a_sandbox_leaves_turns_to_the_others_and_all_are_done_in_the_end() -> None:
    working = Working(Turns(together=3, each=2, waiting=10, waiting_each=5, patience_s=60))
    async with asyncio.TaskGroup() as tasks:
        for sandbox in ("a", "a", "a", "a", "b", "b"):
            tasks.create_task(working.work(sandbox))
        await until(lambda: len(working.busy) == 3)
        assert sorted(working.busy) == ["a", "a", "b"]
        working.may_end.set()
    assert sorted(working.busy) == ["a"] * 4 + ["b"] * 2


async def test_too_many_that_wait_are_refused_and_other_sandboxes_are_not() -> None:
    turns = Turns(together=2, each=1, waiting=3, waiting_each=1, patience_s=60)
    working = Working(turns)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(working.work("a"))
        await until(lambda: working.busy == ["a"])
        waiting = tasks.create_task(working.work("a"))
        await asyncio.sleep(0)
        with pytest.raises(Unavailable):
            await working.work("a")
        tasks.create_task(working.work("b"))
        await until(lambda: working.busy == ["a", "b"])
        assert not waiting.done()
        working.may_end.set()


async def test_what_waited_too_long_is_not_begun() -> None:
    working = Working(Turns(together=1, each=1, waiting=3, waiting_each=3, patience_s=0.05))
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(working.work("a"))
        await until(lambda: working.busy == ["a"])
        with pytest.raises(Unavailable):
            await working.work("b")
        working.may_end.set()
    assert working.busy == ["a"]
    await working.work("b")
