"""Slots in stock: a few for each container in use, a bounded number in all."""

import asyncio
import itertools
import logging
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Mapping

from contracts.errors import ClocheError
from infra.keeper.docker.shell import Usual, usual
from infra.keeper.docker.slot import Slot, SlotBroken
from infra.keeper.launch import LaunchFailed
from infra.target import DockerTarget

FEWEST = 2
MOST = 8
"""Per container: it grows when commands come faster than slots."""
MOST_IN_ALL = 64
AT_ONCE = 4
"""Openings of one container at a time: the engine does not get faster with more."""
IDLE_S = 600.0
REFILL_S = 0.03

log = logging.getLogger("cloche.keeper")


class _Shelf:
    """The slots of one container, and who waits for one."""

    def __init__(self) -> None:
        self.slots: list[Slot] = []
        self.waiting: deque[asyncio.Future[Slot]] = deque()
        self.opening: set[asyncio.Task[None]] = set()
        self.wanted = FEWEST
        self.usual = Usual()
        self.expiry: asyncio.TimerHandle | None = None
        self.refilling: asyncio.TimerHandle | None = None

    def take(self) -> Slot | None:
        while self.slots:
            slot = self.slots.pop()
            if slot.stop_waiting():
                return slot
            slot.close()
        return None

    def put(self, slot: Slot) -> None:
        while self.waiting:
            waiter = self.waiting.popleft()
            if not waiter.done():
                waiter.set_result(slot)
                return
        self.slots.append(slot)
        slot.wait_idle(lambda: self.discard(slot))

    def discard(self, slot: Slot) -> None:
        self.slots.remove(slot)
        slot.stop_waiting()
        slot.close()

    def fail(self, error: Exception) -> bool:
        """Tells one of those who wait; False where nobody does."""
        while self.waiting:
            waiter = self.waiting.popleft()
            if not waiter.done():
                waiter.set_exception(error)
                return True
        return False

    @property
    def lacks(self) -> bool:
        """Whether one more is to be opened now: who waits comes first, the stock is filled one by one."""
        if len(self.opening) >= AT_ONCE:
            return False
        return len(self.opening) < len(self.waiting) or (not self.opening and len(self.slots) < self.wanted)


class SlotPool:
    """Each slot is given out once. Containers that were not used for ten minutes have none."""

    def __init__(self, open_slot: Callable[[DockerTarget, Usual], Awaitable[Slot]]) -> None:
        self._open_slot = open_slot
        self._shelves: OrderedDict[DockerTarget, _Shelf] = OrderedDict()
        self._closed = False
        self.hits = 0
        self.misses = 0

    @property
    def size(self) -> int:
        return sum(len(shelf.slots) for shelf in self._shelves.values())

    @property
    def _opening(self) -> int:
        return sum(len(shelf.opening) for shelf in self._shelves.values())

    def expect(self, target: DockerTarget, env: Mapping[str, str]) -> None:
        """Slots opened from now on know this environment, where the container's have none yet."""
        shelf = self._use(target)
        if not shelf.usual.env:
            shelf.usual = usual(env)

    async def get(self, target: DockerTarget) -> Slot:
        """One from stock, or the next that is opened. Raises like `Slot.open`."""
        shelf = self._use(target)
        if (slot := shelf.take()) is not None:
            self.hits += 1
            return slot
        self.misses += 1
        shelf.wanted = min(shelf.wanted + 1, MOST)
        waiter: asyncio.Future[Slot] = asyncio.get_running_loop().create_future()
        shelf.waiting.append(waiter)
        self._open_more(target, shelf)
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                waiter.result().close()
            raise

    def refill(self, target: DockerTarget) -> None:
        """In the background, and not at once: a short command is over by then, and has the machine for itself."""
        shelf = self._use(target)
        if shelf.refilling is None:
            shelf.refilling = asyncio.get_running_loop().call_later(REFILL_S, self._refill, target, shelf)

    def fill(self, target: DockerTarget) -> None:
        """In the background, at once."""
        self._open_more(target, self._use(target))

    def _refill(self, target: DockerTarget, shelf: _Shelf) -> None:
        shelf.refilling = None
        self._open_more(target, shelf)

    async def filled(self, target: DockerTarget) -> None:
        """Until nothing more is being opened for a container."""
        while (shelf := self._shelves.get(target)) is not None and shelf.opening:
            await asyncio.wait(shelf.opening)

    async def aclose(self) -> None:
        self._closed = True
        tasks = [task for shelf in self._shelves.values() for task in shelf.opening]
        for target in list(self._shelves):
            self._drop(target)
        await asyncio.gather(*tasks, return_exceptions=True)

    def _use(self, target: DockerTarget) -> _Shelf:
        shelf = self._shelves.setdefault(target, _Shelf())
        self._shelves.move_to_end(target)
        if shelf.expiry is not None:
            shelf.expiry.cancel()
        shelf.expiry = asyncio.get_running_loop().call_later(IDLE_S, self._drop, target)
        return shelf

    def _open_more(self, target: DockerTarget, shelf: _Shelf, *, taking: bool = True) -> None:
        while shelf.lacks and not self._closed and (shelf.waiting or self._make_room(target, taking=taking)):
            shelf.opening.add(asyncio.create_task(self._open_one(target, shelf)))

    async def _open_one(self, target: DockerTarget, shelf: _Shelf) -> None:
        task = asyncio.current_task()
        assert task is not None
        try:
            slot = await self._open_slot(target, shelf.usual)
        except (ClocheError, LaunchFailed, SlotBroken) as error:
            shelf.opening.discard(task)
            # The stock is not tried again by itself: the next command of this container does that.
            if shelf.fail(error):
                self._open_more(target, shelf)
            else:
                log.info("no slot for container %s: %s", target.container[:12], error)
        except BaseException:
            shelf.opening.discard(task)
            shelf.fail(SlotBroken("the keeper stops"))
            raise
        else:
            shelf.opening.discard(task)
            if self._shelves.get(target) is shelf:
                shelf.put(slot)
                # Only use gives a right to what others have: two that take from each other would never end.
                self._open_more(target, shelf, taking=False)
            else:
                slot.close()

    def _make_room(self, target: DockerTarget, *, taking: bool) -> bool:
        """Takes from the container that was not used for the longest time. False where none was used earlier."""
        while self.size + self._opening >= MOST_IN_ALL:
            older = itertools.takewhile(lambda each: each != target, self._shelves)
            shelf = next((self._shelves[each] for each in older if self._shelves[each].slots), None)
            if shelf is None or not taking:
                return False
            shelf.discard(shelf.slots[0])
        return True

    def _drop(self, target: DockerTarget) -> None:
        shelf = self._shelves.pop(target)
        for timer in (shelf.expiry, shelf.refilling):
            if timer is not None:
                timer.cancel()
        while shelf.fail(SlotBroken("the keeper stops")):
            continue
        for task in shelf.opening:
            task.cancel()
        for slot in list(shelf.slots):
            shelf.discard(slot)
