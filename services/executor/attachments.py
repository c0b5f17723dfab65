"""The commands of this node that are not over: each attached to the keeper's record of it."""

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from typing import Any, TypeVar

from contracts import codec
from contracts.errors import ClocheError, Invalid, Unavailable
from contracts.state import SandboxState
from infra import clock
from infra.bus.connection import Bus
from infra.journal import Journal
from infra.keeper import protocol
from infra.keeper.client import KeeperClient
from infra.keeper.launcher import reach_keeper
from infra.lifecycles import Lifecycles
from infra.observing import catalogue
from infra.observing.about import About, about
from infra.settings import Settings
from infra.target import Target
from services.executor import course, ending, figures
from services.executor.memory import Memory
from services.executor.outlet import NOTHING, Outlet, Published, published
from services.executor.ownership import NoLongerOurs, Ownership
from services.executor.record import TIMED_OUT, Context, note

logger = logging.getLogger(__name__)

RETRY_S = 0.2
T = TypeVar("T")


class Attachment:
    def __init__(self, sandbox: str) -> None:
        self.sandbox = sandbox
        self._fence: asyncio.Timeout | None = None

    def give_way(self) -> None:
        """Its publishing ends at once."""
        if self._fence is not None:
            self._fence.reschedule(asyncio.get_running_loop().time())
            self._fence = None

    async def unless_taken(self, publish: Callable[[], Awaitable[bool]]) -> bool:
        """What it answers; False when it was ended by `give_way`."""
        fence = asyncio.timeout(None)
        try:
            async with fence:
                self._fence = fence
                return await publish()
        except TimeoutError:
            if not fence.expired():
                raise
            return False
        finally:
            self._fence = None


class Attachments:
    """Holds the connection to the keeper, and one outlet for each record that it has.

    `hold` runs for ever: it makes sure that there is a keeper, attaches to everything that the keeper has, and does so
    again whenever the keeper is gone. A sandbox that another node has taken over is that node's to speak for: what
    this one has of its commands is told no further, and forgotten once it has ended.
    """

    def __init__(
        self,
        settings: Settings,
        bus: Bus,
        journal: Journal,
        lifecycles: Lifecycles,
        ownership: Ownership,
        memory: Memory,
    ) -> None:
        self._data = settings.data
        self._keeping = settings.keeper
        self._bus = bus
        self._journal = journal
        self._lifecycles = lifecycles
        self._ownership = ownership
        self._memory = memory
        self._client: KeeperClient | None = None
        self._tasks: asyncio.TaskGroup | None = None
        self._attached: dict[str, Attachment] = {}
        self._slots = figures.Slots()
        self.ready = asyncio.Event()

    async def with_keeper(self, ask: Callable[[KeeperClient], Awaitable[T]]) -> T:
        """Asks the keeper, and the next one if it dies meanwhile: nothing is wrong with the order."""
        while True:
            await self.ready.wait()
            if self._client is not None:
                try:
                    return await ask(self._client)
                except Unavailable as error:
                    logger.info("asking the next keeper: %s", error.message)
            await asyncio.sleep(RETRY_S)

    def has(self, key: str) -> bool:
        return key in self._attached

    def give_way(self, state: SandboxState) -> None:
        """The log has news of a sandbox. If another node has it now, nothing more is told of its commands here."""
        if not self._is_taken(state):
            return
        for attachment in self._attached.values():
            if attachment.sandbox == state.sandbox:
                attachment.give_way()

    def _is_taken(self, state: SandboxState | None) -> bool:
        node = self._journal.node
        return state is not None and state.node != node and node in state.former_nodes

    async def hold(self) -> None:
        running = catalogue.commands_running.asking(lambda: len(self._attached))
        with running, catalogue.keeper_up.asking(lambda: self._client is not None):
            await self._hold()

    async def _hold(self) -> None:
        while True:
            try:
                async with await reach_keeper(self._data, self._keeping) as client:
                    await self._serve(client)
            except* Unavailable as gone:
                catalogue.keepers_lost.add()
                logger.warning("keeper: %s", gone.exceptions[0])
            finally:
                self._client = None
                self.ready.clear()
                self._attached.clear()
            await asyncio.sleep(RETRY_S)

    async def _serve(self, client: KeeperClient) -> None:
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            # Whose the sandboxes are must be known before anything is told of them.
            await self._lifecycles.caught_up.wait()
            for listed in await client.list():
                self._find_again(client, await client.info(listed.exec))
            self._client = client
            tasks.create_task(self._slots.watch(client))
            self.ready.set()
            await client.closed()
            raise Unavailable("the keeper has gone")

    def _find_again(self, client: KeeperClient, record: protocol.ExecInfo) -> None:
        try:
            context: Context = codec.decode(record.context, Context)
        except Invalid as error:
            logger.warning("record %s is not ours: %s", record.exec, error.message)
            return
        self._attach(client, context, record, first=record.first)
        if record.notes:
            # Somebody was ending it when the executor went away: the grace is over.
            self._spawn(context.key, ending.kill(client, context.key, after_s=0))

    async def start(self, context: Context, target: Target, environment: Mapping[str, str]) -> None:
        """Has the keeper start it, at most once, and attaches to its record."""
        await self.with_keeper(lambda client: self._start(client, context, target, environment))

    async def _start(
        self, client: KeeperClient, context: Context, target: Target, environment: Mapping[str, str]
    ) -> None:
        # Asked of each keeper anew: the one before may have begun it and died, and its record may be told and
        # forgotten by now. What is neither attached nor in the log was never begun.
        if self.has(context.key) or (await published(self._bus, context.sandbox, context.exec)).started:
            return
        with course.starting(context) as context:
            begun = await client.start(
                context.key,
                target,
                context.argv,
                env=environment,
                cwd=context.cwd,
                pty=protocol.PtySize(rows=context.pty.rows, cols=context.pty.cols) if context.pty else None,
                stdin=context.stdin,
                context=codec.encode(context),
            )
        if not begun.already:
            figures.begun(begun.begun_ns)
        if client is self._client and not self.has(context.key):
            self._attach(client, context, begun, known=NOTHING)

    async def end(self, key: str, *, reason: str, first: int, grace_s: float, order: str) -> None:
        """Starts to end a command; its record tells when it has. Ordered again it is not signalled again."""

        async def begin(client: KeeperClient) -> None:
            heard = await ending.ask_to_end(client, key, first, reason, order)
            if not heard or first != signal.SIGKILL:
                self._spawn(key, ending.kill(client, key, after_s=grace_s))

        await self.with_keeper(begin)

    def _attach(
        self,
        client: KeeperClient,
        context: Context,
        begun: protocol.Started | protocol.ExecInfo,
        *,
        known: Published | None = None,
        first: int = 0,
    ) -> None:
        outlet = Outlet(self._bus, self._journal, client, self._ownership, self._memory, context, begun.begun_ns)
        self._attached[context.key] = attachment = Attachment(context.sandbox)
        publish = partial(self._publish, outlet, context, known, first)
        publishing = self._begin(self._until_told(client, context, attachment, publish))
        if context.timeout_ms is None:
            return
        age_s = begun.age_s if begun.age_s is not None else clock.now().timestamp() - begun.begun_ns / 1e9
        left_s = context.timeout_ms / 1000 - age_s
        reason = note(TIMED_OUT, f"its time limit of {context.timeout_ms} ms is over")
        limit = self._spawn(context.key, ending.at_time_limit(client, context.key, left_s, reason))
        publishing.add_done_callback(lambda _: limit.cancel())

    async def _until_told(
        self, client: KeeperClient, context: Context, attachment: Attachment, publish: Callable[[], Awaitable[bool]]
    ) -> None:
        """A record that cannot be published stays with the keeper, and must not stop the others."""
        with about(About(context.sandbox, context.exec)):
            try:
                if not await attachment.unless_taken(publish):
                    await _forget(client, context)
            except Unavailable:
                raise
            except Exception:
                logger.exception("%s of %s cannot be published", context.exec, context.sandbox)
                return
        self._attached.pop(context.key, None)

    async def _publish(self, outlet: Outlet, context: Context, known: Published | None, first: int) -> bool:
        """Until the log has all of it. False for one that is another node's to tell of."""
        state = self._lifecycles.get(context.sandbox) or await self._journal.lifecycle(context.sandbox)
        if self._is_taken(state):
            return False
        if known is None:
            known = await published(self._bus, context.sandbox, context.exec)
        if known.orphan:
            return False
        try:
            await outlet.run(known, first)
        except NoLongerOurs:
            return False
        return True

    def _spawn(self, key: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return self._begin(_unless_over(key, work))

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Raises `Unavailable` when this keeper is gone and all that was attached to it is being let go."""
        assert self._tasks is not None
        try:
            return self._tasks.create_task(work)
        except RuntimeError:
            work.close()
            raise Unavailable("the keeper has gone") from None


async def _unless_over(key: str, work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except Unavailable:
        raise
    except ClocheError as error:
        logger.info("%s ended before it could be ended: %s", key, error.message)


async def _forget(client: KeeperClient, context: Context) -> None:
    """Once it has ended: with its sandbox, which is being removed from this node."""
    logger.warning("%s of %s is told by another node", context.exec, context.sandbox)
    grown = await client.wait(context.key, 0)
    while not grown.final:
        grown = await client.wait(context.key, grown.size)
    await client.forget(context.key)
