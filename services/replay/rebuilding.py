"""Rebuilds the read models when somebody asks, and tells how far that has come."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence

from contracts import codec
from contracts.errors import ClocheError, Invalid, Unavailable
from contracts.past import Rebuild, Rebuilding
from infra import clock
from infra.ids import new_id
from services.replay.handlers import Answers
from services.replay.read_model import ReadModel

logger = logging.getLogger(__name__)

STATUS = "_rebuild"
"""In the bucket, so that every replay service can say how the last one stands."""
TELL_S = 0.5
SILENT_S = 15.0
"""Whoever rebuilds and is not heard of for so long does not rebuild any more."""
PUT_S = 2.0
MOST_NAMED = 1000


class Rebuilder:
    """One at a time; whoever asks for another meanwhile is told of the one under way."""

    def __init__(
        self, model: ReadModel, forget: Sequence[Callable[[], Awaitable[None]]], *, tasks: asyncio.TaskGroup
    ) -> None:
        """`forget` throws away what else is derived."""
        self._bucket = model.bucket
        self._healing = model.healing
        self._projection = model.projection
        self._forget = forget
        self._tasks = tasks
        self._status: Rebuilding | None = None
        self._failed: dict[str, ClocheError] = {}
        """What the last one came to grief over, by its id."""

    def answers(self) -> Answers:
        return {"rebuild": self.rebuild}

    async def rebuild(self, query: Rebuild) -> Rebuilding:
        """Raises `Invalid` for one that nobody knows, what one came to grief over, `Unavailable`."""
        status = self._status
        if query.follow in self._failed:
            raise self._failed[query.follow]
        if query.follow is not None:
            return status if status is not None and status.id == query.follow else await self._elsewhere(query.follow)
        if status is None or status.done:
            status = Rebuilding(id=new_id("rebuild"), applied_sequence=0, last_sequence=0, done=False)
            self._status = status
            self._tasks.create_task(self._run(status.id))
        return status

    async def _elsewhere(self, id_: str) -> Rebuilding:
        value = await self._bucket.get(STATUS)
        told_at = await self._bucket.changed_at(STATUS)
        if value is not None and told_at is not None:
            with contextlib.suppress(Invalid):
                status: Rebuilding = codec.decode(value, Rebuilding)
                silent_s = (clock.now() - told_at).total_seconds()
                if status.id == id_ and (status.done or silent_s < SILENT_S):
                    return status
        raise Invalid(f"nobody rebuilds {id_!r} any more: ask for a new one")

    async def _run(self, id_: str) -> None:
        def progress(done: int, whole: int) -> None:
            self._status = Rebuilding(id=id_, applied_sequence=done, last_sequence=whole, done=False)

        telling = self._tasks.create_task(self._tell())
        try:
            changed = await self._healing.rebuild(progress)
            for forget in self._forget:
                await forget()
        except ClocheError as error:
            logger.error("the read models were not rebuilt: %s", error.message)  # noqa: TRY400
            self._status, self._failed = None, {id_: error}
        else:
            self._done(id_, changed)
        finally:
            telling.cancel()
        await self._keep()

    def _done(self, id_: str, changed: list[str]) -> None:
        last = self._projection.applied
        self._status = Rebuilding(
            id=id_,
            applied_sequence=last,
            last_sequence=last,
            done=True,
            sandboxes=len(self._projection.all()),
            changed=tuple(changed[:MOST_NAMED]),
        )

    async def _tell(self) -> None:
        while True:
            await self._keep()
            await asyncio.sleep(TELL_S)

    async def _keep(self) -> None:
        if self._status is not None:
            with contextlib.suppress(Unavailable):
                await self._bucket.put(STATUS, codec.encode(self._status), timeout_s=PUT_S)
