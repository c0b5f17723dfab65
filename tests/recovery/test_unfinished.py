"""What was begun is gone on with until it is finished, whatever becomes of one of them."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from msgspec.structs import replace

from contracts.errors import Invalid
from contracts.state import fold
from infra.lifecycles import Lifecycles
from services.spawner.unfinished import Unfinished
from tests.contracts.histories import CREATING, numbered
from tests.services.node import eventually


def half_made(*names: str) -> Lifecycles:
    lifecycles = Lifecycles(None)  # type: ignore[arg-type]
    one = fold(numbered([CREATING]))
    assert one is not None
    for name in names:
        lifecycles.learn(replace(one, sandbox=name, node="n1"))
    return lifecycles


class Work:
    """Notes what is gone on with. `bad` fails as nobody foresaw, `refused` for good, `slow` takes for ever."""

    def __init__(self) -> None:
        self.begun: Counter[str] = Counter()

    async def go_on(self, sandbox: str) -> None:
        self.begun[sandbox] += 1
        if sandbox == "bad":
            raise KeyError("a bug")
        if sandbox == "refused":
            raise Invalid("this node has no such sandboxes")
        if sandbox == "slow":
            await asyncio.Event().wait()

    def is_in_hand(self, sandbox: str) -> bool:
        return sandbox == "ordered"


@asynccontextmanager
async def finding(lifecycles: Lifecycles, work: Work, later: tuple[str, ...] = ()) -> AsyncIterator[None]:
    async def run() -> None:
        async with asyncio.TaskGroup() as tasks:
            unfinished = Unfinished(tasks, "n1", lifecycles)
            unfinished.go_on, unfinished.is_in_hand = work.go_on, work.is_in_hand
            for sandbox in later:
                unfinished.later(sandbox, 3600)
            tasks.create_task(unfinished.find(0.01))

    running = asyncio.create_task(run())
    try:
        yield
        assert not running.done()
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_one_that_cannot_be_finished_is_tried_again_and_takes_nobody_along() -> None:
    work = Work()
    async with finding(half_made("bad", "refused", "good"), work):
        await eventually(lambda: min(work.begun[name] for name in ("bad", "refused", "good")) >= 3)


async def test_what_is_in_hand_or_has_its_time_set_is_left_to_that() -> None:
    work = Work()
    async with finding(half_made("slow", "ordered", "waits", "good"), work, later=("waits",)):
        await eventually(lambda: work.begun["good"] >= 3)
        assert (work.begun["slow"], work.begun["ordered"], work.begun["waits"]) == (1, 0, 0)
