"""Everything gets its turn, whatever one of them does."""

import asyncio
from collections import Counter
from collections.abc import Callable

from msgspec.structs import replace

from contracts.spec import Isolation
from contracts.state import SandboxState, fold
from infra.sandbox.base import DiskUsage
from services.health_monitor import rounds
from services.health_monitor.disks import Disks
from services.health_monitor.rounds import Rounds
from tests.contracts.histories import CREATED, CREATING, STARTED, numbered


def states(count: int) -> dict[str, SandboxState]:
    one = fold(numbered([CREATING, CREATED, STARTED]))
    assert one is not None
    return {f"sb-{number}": replace(one, sandbox=f"sb-{number}") for number in range(count)}


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.005)


async def test_one_that_hangs_does_not_keep_the_others_from_being_looked_at() -> None:
    alive, looks, most_at_once, now = states(20), Counter[str](), 0, 0

    async def look(state: SandboxState) -> bool:
        nonlocal most_at_once, now
        looks[state.sandbox] += 1
        if state.sandbox == "sb-7":
            await asyncio.Event().wait()
        now += 1
        most_at_once = max(most_at_once, now)
        await asyncio.sleep(0)
        now -= 1
        return True

    walk = Rounds(0.02, alive.get, look)
    for state in alive.values():
        walk.begin(state)
    task = asyncio.create_task(walk.walk())
    try:
        await until(lambda: all(looks[name] >= 3 for name in alive if name != "sb-7"))
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert looks["sb-7"] == 1, "it is not looked at again before it has answered"
    assert most_at_once <= rounds.AT_ONCE


async def test_a_look_that_fails_as_nobody_foresaw_is_tried_again_and_ends_no_other() -> None:
    alive, looks = states(2), Counter[str]()

    async def look(state: SandboxState) -> bool:
        looks[state.sandbox] += 1
        if state.sandbox == "sb-0":
            raise ValueError("an answer that makes no sense")
        return True

    walk = Rounds(0.01, alive.get, look)
    for state in alive.values():
        walk.begin(state)
    task = asyncio.create_task(walk.walk())
    try:
        await until(lambda: min(looks["sb-0"], looks["sb-1"]) >= 3 or task.done())
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_new_life_is_looked_at_at_once_and_an_ended_one_no_more() -> None:
    alive = states(2)
    looked: list[tuple[str, str | None]] = []

    async def look(state: SandboxState) -> bool:
        looked.append((state.sandbox, state.instance))
        return True

    walk = Rounds(3600, alive.get, look)
    walk.begin(alive["sb-0"])
    task = asyncio.create_task(walk.walk())
    try:
        await until(lambda: len(looked) == 1)
        walk.begin(alive["sb-0"])
        alive["sb-0"] = replace(alive["sb-0"], instance="life-2")
        walk.begin(alive["sb-0"])
        await until(lambda: len(looked) == 2)
        walk.begin(alive["sb-1"])
        walk.end("sb-1")
        walk.begin(replace(alive["sb-0"], instance="gone"))
        walk.begin(alive["sb-0"])
        await until(lambda: len(looked) == 3)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert looked == [("sb-0", "life-1"), ("sb-0", "life-2"), ("sb-0", "life-2")]


class FakeDisk:
    """A provider of which nothing but the disk is asked."""

    def __init__(self) -> None:
        self.slow = asyncio.Event()
        self.walks: Counter[str] = Counter()

    async def disk_usage(self, sandbox: str) -> DiskUsage:
        self.walks[sandbox] += 1
        if sandbox == "sb-0":
            await self.slow.wait()
        if sandbox == "sb-10":
            raise ValueError("a tree that makes no sense")
        return DiskUsage(bytes=int(sandbox.removeprefix("sb-")), entries=1)


async def test_a_workspace_that_takes_for_ever_does_not_keep_others_from_being_measured() -> None:
    alive, provider = states(11), FakeDisk()
    found: dict[str, int] = {}

    async def note(state: SandboxState, used: int) -> None:
        found[state.sandbox] = used

    walk = Disks({Isolation.LOCAL: provider}, 3600, note)  # type: ignore[dict-item]
    for name in alive:
        walk.add(name)
    task = asyncio.create_task(walk.walk(alive.get))
    try:
        await until(lambda: len(found) == 9)
        assert walk.of("sb-0") is None
        assert walk.of("sb-9") == 9
        provider.slow.set()
        await until(lambda: len(found) == 10)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert set(provider.walks.values()) == {1}
