"""Takes command orders: decides, and has the keeper carry them out. Every step may be repeated after a crash."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

from contracts import codec, subjects
from contracts.commands.command import InputCommand, ResizeCommand, RunCommand, Scope, SignalCommand
from contracts.errors import ClocheError, Conflict, Invalid, SandboxInvalidState, Unavailable
from contracts.events.command import CommandRejected
from contracts.payload import unpack
from contracts.spec import Isolation, NetworkMode
from contracts.state import SandboxState, Status
from infra.bus.connection import Bus
from infra.bus.publisher import Expect
from infra.journal import Journal
from infra.keeper import protocol
from infra.lifecycles import Lifecycles
from infra.observing import denials
from infra.sandbox.base import Provider
from infra.sandbox.way_out import way_out
from infra.target import Target
from services.executor.attachments import Attachments
from services.executor.decide import may_run
from services.executor.memory import Memory
from services.executor.outlet import published
from services.executor.record import CANCELLED, Context, context_of, key_of, note

LATER = frozenset({"gap"})
"""Reasons for which input may be taken when it comes again."""
WHEN_THERE_IS_ROOM = frozenset({"busy", "full"})
"""Reasons that pass by themselves, with the command's reading or with the disk; meanwhile its other orders wait."""
ROOM_S = 0.2


PLACES_REMEMBERED = 1000
SCOPES: dict[Scope, protocol.Scope] = {Scope.TREE: "tree", Scope.MAIN: "main", Scope.REST: "rest"}


class Place(NamedTuple):
    """Where commands of one life of a sandbox start, and with what."""

    instance: str
    network: NetworkMode
    target: Target
    environment: dict[str, str]


class Executor:
    def __init__(
        self,
        *,
        bus: Bus,
        journal: Journal,
        lifecycles: Lifecycles,
        providers: Mapping[Isolation, Provider],
        attachments: Attachments,
        memory: Memory,
    ) -> None:
        self._bus = bus
        self._journal = journal
        self._lifecycles = lifecycles
        self._providers = providers
        self._attachments = attachments
        self._memory = memory
        self._places: dict[str, Place] = {}

    async def handle(self, subject: str, raw: bytes) -> None:
        """Raises a `ClocheError`: retryable = ask again later, otherwise it is a dead letter."""
        head, order = codec.decode_command(subject, raw)
        sandbox = subjects.parse_command(subject).sandbox
        match order:
            case RunCommand():
                await self._run(sandbox, head.id, order, head.source)
            case InputCommand():
                await self._input(sandbox, head.id, order)
            case SignalCommand():
                await self._signal(sandbox, head.id, order)
            case ResizeCommand():
                await self._resize(sandbox, order)
            case _:
                raise Invalid(f"the executor does not take {head.type}")

    async def get_ready(self, state: SandboxState) -> None:
        """A sandbox has started: its first command should not have to wait for what can be done now."""
        with suppress(ClocheError, OSError):
            place = await self._place(state)
            await self._attachments.with_keeper(lambda keeper: keeper.prepare(place.target, place.environment))

    async def _run(self, sandbox: str, exec_id: str, order: RunCommand, by: str) -> None:
        state = await self._state(sandbox)
        refusal = may_run(state, order, sandbox=sandbox, node=self._journal.node)
        if refusal is not None:
            await self._refuse(sandbox, exec_id, refusal)
            return
        assert state is not None
        try:
            self._check_side_door(order)
            await self._start(context_of(sandbox, exec_id, order, state.workspace, by), order, state)
        except ClocheError as error:
            await self._refuse(sandbox, exec_id, error)

    def _check_side_door(self, order: RunCommand) -> None:
        held = sorted(name for name, value in order.env.items() if self._bus.redactor.holds(value))
        if held:
            raise Invalid(f"{', '.join(held)}: a secret of this node; `secrets` of the specification never let it in")

    async def _start(self, context: Context, order: RunCommand, state: SandboxState) -> None:
        place = await self._place(state)
        await self._attachments.start(context, place.target, {**place.environment, **order.env})

    async def _place(self, state: SandboxState) -> Place:
        """The same for every command in one life of a sandbox, so it is looked up once."""
        known = self._places.get(state.sandbox)
        if known is None or (known.instance, known.network) != (state.instance, state.spec.network.mode):
            provider = self._provider(state)
            target, environment = await provider.target(state.sandbox), await provider.environment(state.sandbox)
            # A sandbox whose network was restricted only later has the way out all the same.
            environment = {**way_out(state.spec), **environment}
            known = Place(target.instance, state.spec.network.mode, target, environment)
            await self._memory.remember(state)
            self._places[state.sandbox] = known
            self._places = dict(list(self._places.items())[-PLACES_REMEMBERED:])
        return known

    def _provider(self, state: SandboxState) -> Provider:
        provider = self._providers.get(state.isolation)
        if provider is None:
            raise Unavailable(f"node {self._journal.node!r} offers no {state.isolation} sandboxes now")
        return provider

    async def _refuse(self, sandbox: str, exec_id: str, refusal: ClocheError) -> None:
        """A reason that may pass is worth another delivery; any other ends the command, on the record, where nobody has
        told anything of it. Raises `Conflict` where somebody just does.
        """
        if refusal.retryable:
            raise refusal
        await self._attachments.ready.wait()
        if self._attachments.has(key_of(sandbox, exec_id)) or (await published(self._bus, sandbox, exec_id)).started:
            return
        rejected = CommandRejected(exec=exec_id, failure=refusal.failure(), cause=refusal.message)
        written = self._journal.write(sandbox, rejected, id=f"{sandbox}.{exec_id}.rejected", command=exec_id)
        await self._journal.append(written, expect=Expect(subjects.told_of(sandbox, exec_id), 0))
        denials.failed(self._bus.service, refusal.code)

    async def _state(self, sandbox: str) -> SandboxState | None:
        """What is followed live is a moment old, so anything but `running` is looked up in the log itself."""
        state = self._lifecycles.get(sandbox)
        if state is not None and state.status == Status.RUNNING:
            return state
        state = await self._journal.lifecycle(sandbox)
        if state is not None:
            self._lifecycles.learn(state)
        return state

    async def _input(self, sandbox: str, command: str, order: InputCommand) -> None:
        key = await self._key(sandbox, order.exec)
        data = unpack(order.data, order.encoding)
        while True:
            written = await self._attachments.with_keeper(
                lambda keeper: keeper.write(key, data, offset=order.offset, write_id=command, eof=order.eof)
            )
            if written.accepted or written.reason not in WHEN_THERE_IS_ROOM:
                break
            await asyncio.sleep(ROOM_S)
        if not written.accepted:
            refused = f"input for {order.exec!r} at {order.offset}: {written.reason}, it has {written.offset}"
            raise Conflict(refused) if written.reason in LATER else Invalid(refused)

    async def _signal(self, sandbox: str, command: str, order: SignalCommand) -> None:
        key = await self._key(sandbox, order.exec)
        if order.cancel:
            reason, grace_s = note(CANCELLED, order.reason), order.grace_ms / 1000
            await self._attachments.end(key, reason=reason, first=order.signal, grace_s=grace_s, order=command)
        else:
            scope = SCOPES[order.scope]
            await self._attachments.with_keeper(lambda keeper: keeper.signal(key, order.signal, scope, order=command))

    async def _resize(self, sandbox: str, order: ResizeCommand) -> None:
        key = await self._key(sandbox, order.exec)
        await self._attachments.with_keeper(lambda keeper: keeper.resize(key, order.rows, order.cols))

    async def _key(self, sandbox: str, exec_id: str) -> str:
        """Raises `Conflict` while the command may still be on its way, `Invalid` once it has ended,
        `SandboxInvalidState` where another node has the sandbox: what still runs here is not what is meant.
        """
        key = key_of(sandbox, exec_id)
        state, node = self._lifecycles.get(sandbox), self._journal.node
        if state is not None and state.node != node:
            raise SandboxInvalidState(f"sandbox {sandbox!r} belongs to node {state.node!r}, not {node!r}")
        if self._attachments.has(key):
            return key
        known = await published(self._bus, sandbox, exec_id)
        if known.ended:
            raise Invalid(f"command {exec_id!r} has ended")
        raise Conflict(f"sandbox {sandbox!r} has no command {exec_id!r} yet")
