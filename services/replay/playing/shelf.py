"""Where replays are kept, and what is known of those who play them."""

import asyncio
import logging
from collections.abc import Callable
from typing import NamedTuple

from contracts import codec
from contracts.errors import Conflict, Invalid, Unavailable
from infra.bus.connection import Bus
from infra.bus.kv import Bucket, Change
from services.replay.playing.record import Record

logger = logging.getLogger(__name__)

ALIVE = "alive."
"""No replay can be called so: ids have no dots."""
LOOK_AGAIN_S = 0.2


class Held(NamedTuple):
    record: Record
    revision: int


Changed = Callable[[str, Held | None], None]
"""Called with a replay's id, and None where it was forgotten."""


class Shelf:
    """Everybody's replays, as the bucket has them. Changes are guarded by the revision: nobody writes over another."""

    def __init__(self, bus: Bus, bucket: Bucket) -> None:
        self._bus = bus
        self._bucket = bucket
        self.held: dict[str, Held] = {}
        self._beats: dict[str, int] = {}
        self._seen: dict[str, float] = {}

    async def create(self, record: Record) -> Held | None:
        """None where one with this id is there already. Raises `Denied`, `Invalid`."""
        try:
            revision = await self._bucket.put(record.replay, codec.encode(record), revision=0)
        except Conflict:
            return None
        return self._keep(Held(record, revision))

    async def find(self, replay: str) -> Held | None:
        """As the server has it. Raises `Unavailable`."""
        kept = await self._bucket.find(replay)
        record = None if kept is None else _decoded(replay, kept.value)
        return None if record is None or kept is None else Held(record, kept.revision)

    async def revision(self, replay: str) -> int | None:
        """Of what there is under its name, whatever that is: 0 where nothing ever was, None where it was forgotten.

        Raises `Unavailable`.
        """
        newest = await self._bucket.newest(replay)
        return None if newest.value is None and newest.revision else newest.revision

    async def save(self, record: Record, revision: int) -> Held:
        """Raises `Conflict` when somebody has changed it since that revision."""
        stored = await self._bucket.put(record.replay, codec.encode(record), revision=revision)
        return self._keep(Held(record, stored))

    async def change(self, replay: str, change: Callable[[Record], Record]) -> Held | None:
        """Repeated until nobody else came between. None where there is no such replay. `change` may raise."""
        while (held := await self.find(replay)) is not None:
            wanted = change(held.record)
            if wanted == held.record:
                return held
            try:
                return await self.save(wanted, held.revision)
            except Conflict:
                continue
        return None

    async def forget(self, held: Held) -> None:
        """Raises `Conflict`, `Unavailable`."""
        await self._bucket.forget(held.record.replay, revision=held.revision)
        self.held.pop(held.record.replay, None)

    async def refresh(self, replay: str) -> None:
        """What is known of it is what the server has. Raises `Unavailable`."""
        held = await self.find(replay)
        if held is None:
            self.held.pop(replay, None)
        else:
            self._keep(held)

    async def beat(self, owner: str) -> None:
        """A sign of life."""
        self._beats[owner] = await self._bucket.put(ALIVE + owner, b"")

    async def leave(self, owner: str) -> None:
        """Whatever it plays is free to be taken. Raises `Conflict`, `Unavailable`."""
        if owner in self._beats:
            await self._bucket.forget(ALIVE + owner, revision=self._beats[owner])

    def silence_s(self, owner: str) -> float:
        """How long nothing was heard of an owner, as far as this process knows."""
        now = asyncio.get_running_loop().time()
        return now - self._seen.setdefault(owner, now)

    async def watch(self, changed: Changed) -> None:
        """For ever: what is there, and what others change of it."""
        while True:
            try:
                async for change in self._bucket.watch():
                    self._note(change, changed)
            except Unavailable:
                # The bucket may have been made anew: then its revisions are others.
                self.held.clear()
                self._beats.clear()
                await asyncio.sleep(LOOK_AGAIN_S)
                await self._bus.wait_connected()

    def _note(self, change: Change, changed: Changed) -> None:
        if change.key.startswith(ALIVE):
            self._heard(change.key.removeprefix(ALIVE), change)
            return
        before = self.held.get(change.key)
        if before is not None and change.revision <= before.revision:
            return
        if change.value is None:
            self.held.pop(change.key, None)
            changed(change.key, None)
        elif (record := _decoded(change.key, change.value)) is None:
            # Whoever plays it writes it again.
            self.held.pop(change.key, None)
        else:
            changed(change.key, self._keep(Held(record, change.revision)))

    def _heard(self, owner: str, change: Change) -> None:
        if change.value is None:
            self._seen[owner] = float("-inf")
            self._beats.pop(owner, None)
        elif change.revision > self._beats.get(owner, 0):
            self._beats[owner] = change.revision
            self._seen[owner] = asyncio.get_running_loop().time()

    def _keep(self, held: Held) -> Held:
        before = self.held.get(held.record.replay)
        if before is None or held.revision > before.revision:
            self.held[held.record.replay] = held
        return held


def _decoded(replay: str, value: bytes) -> Record | None:
    try:
        record: Record = codec.decode(value, Record)
    except Invalid as error:
        logger.error("replay %s cannot be read: %s", replay, error.message)  # noqa: TRY400
        return None
    return record
