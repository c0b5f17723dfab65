"""Takes sandbox orders: load, decide, act, append. Every step may be repeated after a crash."""

import asyncio
import weakref
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from typing import NamedTuple

import msgspec

from contracts import codec, subjects
from contracts.commands import sandbox as orders
from contracts.commands.node import DrainNode, LoseNode
from contracts.errors import (
    ClocheError,
    Conflict,
    Failure,
    Invalid,
    SandboxCreationFailed,
    SandboxNotFound,
)
from contracts.events import sandbox as facts
from contracts.message import Fact, Order
from contracts.recovery import is_recovering
from contracts.spec import ForkOf, Isolation, NetworkMode, SandboxSpec, merge, merge_network
from contracts.state import SandboxState, Status
from infra import clock
from infra.journal import Journal
from infra.nodes import NodeLog
from infra.observing.tracing import step
from infra.sandbox.base import Created, CreateRequest, Provider
from infra.sandbox.side_door import HoldsSecret, block_secrets
from services.spawner import figures
from services.spawner.admission import Admission
from services.spawner.attaching import Attaching
from services.spawner.decide import Decision, Step, decide
from services.spawner.flushing import Flushing
from services.spawner.forks import Forks
from services.spawner.node_orders import NodeOrders
from services.spawner.placing import Places
from services.spawner.progress import Reporter
from services.spawner.recovering import Recoveries
from services.spawner.room import LIVING
from services.spawner.thawing import thaw_untold
from services.spawner.worktrees import Worktrees

CONFLICTS_TOLERATED = 8
BEGINS = frozenset({Step.START, Step.RECOVER, Step.GIVE_UP})
"""Steps by which a sandbox that exists is to live on the node that takes them, or that are decided there."""


class Asked(NamedTuple):
    sandbox: str
    command: str
    order: Order
    origin: str = ""
    """The sandbox that it is to be a fork of."""
    by: str = ""
    """Whoever asked. Empty where what they asked for is gone on with after a crash."""


class Spawner:
    def __init__(
        self,
        *,
        journal: Journal,
        providers: Mapping[Isolation, Provider],
        default_isolation: Isolation,
        defaults: SandboxSpec,
        host_env: Mapping[str, str],
        holds_secret: HoldsSecret,
        secret_notes: Callable[[SandboxSpec], tuple[str, ...]],
        places: Places,
        nodes: NodeOrders,
        node_log: NodeLog,
        admission: Admission,
        pool: AbstractAsyncContextManager[object],
        reporter: Reporter,
        worktrees: Worktrees,
        flushing: Flushing,
        forks: Forks,
        attaching: Attaching,
        recoveries: Recoveries,
    ) -> None:
        self._journal = journal
        self._providers = providers
        self._default_isolation = default_isolation
        self._defaults = defaults
        self._host_env = host_env
        self._holds_secret = holds_secret
        self._secret_notes = secret_notes
        self._places = places
        self._nodes = nodes
        self._node_log = node_log
        self._admission = admission
        self._pool = pool
        self._reporter = reporter
        self._worktrees = worktrees
        self._flushing = flushing
        self._forks = forks
        self._attaching = attaching
        self._recoveries = recoveries
        self._lanes: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()

    async def handle(self, subject: str, raw: bytes) -> None:
        """Raises the refusal as a `ClocheError`: retryable = ask again later, otherwise it is a dead letter."""
        head, order = codec.decode_command(subject, raw)
        to = subjects.parse_command(subject)
        if isinstance(order, DrainNode | LoseNode):
            await self._nodes.obey(order, head.id, by=head.source)
            return
        sandbox = to.sandbox
        asked = Asked(sandbox, head.id, order, by=head.source)
        if isinstance(order, orders.ForkSandbox):
            asked = Asked(order.fork, head.id, order, origin=sandbox, by=head.source)
        async with self.lane(asked.sandbox):
            state = await self._journal.lifecycle(asked.sandbox)
            is_offer = to.node == subjects.ANY_NODE
            spec = await self._to_place(asked, state, is_offer=is_offer)
            if spec is None:
                await self._obey(asked)
                return
            if is_offer:
                await self._places.admit(asked.command, asked.sandbox, spec)
            else:
                has_it = state is not None and state.node == self._journal.node
                self._places.admit_here(asked.sandbox, spec, exists=state is not None, has_it=has_it)
            with self._places.kept(asked.sandbox, spec):
                await self._obey(asked)

    async def _to_place(self, asked: Asked, state: SandboxState | None, *, is_offer: bool) -> SandboxSpec | None:
        """What a node must have for it to live there from now on; None where nothing new would."""
        decision = await self._decide(asked, state)
        if decision.step is Step.CREATE:
            return await self._wanted(asked)
        if state is None or decision.step not in BEGINS:
            return None
        lives_here = state.node == self._journal.node and state.status in LIVING
        if lives_here and not is_offer:
            return None
        return msgspec.structs.replace(state.spec, isolation=state.isolation)

    async def go_on(self, sandbox: str) -> None:
        """With what was begun for it on this node and is not finished, if anything. Raises a `ClocheError`."""
        async with self.lane(sandbox):
            state = await self._journal.lifecycle(sandbox)
            if state is None or state.status != Status.CREATING or state.node != self._journal.node:
                return
            command = state.requested_by if state.recovery is None else state.recovery.command
            order = orders.CreateSandbox() if state.recovery is None else orders.RecoverSandbox()
            if command is not None:
                await self._obey(Asked(sandbox, command, order))

    def lane(self, sandbox: str) -> asyncio.Lock:
        """Orders for one sandbox are taken one after another."""
        return self._lanes.setdefault(sandbox, asyncio.Lock())

    def is_in_hand(self, sandbox: str) -> bool:
        lane = self._lanes.get(sandbox)
        return lane is not None and lane.locked()

    async def _obey(self, asked: Asked) -> None:
        for _ in range(CONFLICTS_TOLERATED):
            state = await self._journal.lifecycle(asked.sandbox)
            decision = await self._decide(asked, state)
            if decision.refusal is not None:
                raise decision.refusal
            try:
                await self._take(decision, asked, state)
            except Conflict:
                continue
            return
        raise Conflict(f"others keep moving sandbox {asked.sandbox!r}")

    async def _decide(self, asked: Asked, state: SandboxState | None) -> Decision:
        if isinstance(asked.order, orders.RecoverSandbox) and asked.order.lost_sequence is not None:
            await self._node_log.read()
        return decide(
            state,
            asked.order,
            sandbox=asked.sandbox,
            command=asked.command,
            node=self._journal.node,
            now=clock.now(),
            owner=None if state is None else self._node_log.get(state.node),
        )

    async def _take(self, decision: Decision, asked: Asked, state: SandboxState | None) -> None:
        if decision.step == Step.NOTHING:
            return
        if decision.step == Step.CREATE:
            state = await self._claim(asked)
        assert state is not None
        if decision.step in (Step.CREATE, Step.FINISH_CREATING):
            refusal = await self._admission.verdict(asked.sandbox, state.lifecycle_sequence)
            if refusal is not None:
                await self._append(asked, facts.SandboxFailed(failure=refusal.failure()), state.lifecycle_sequence)
                return
            await self._bring_up(asked, state)
            return
        provider = self._provider(state.isolation)
        await self._move(decision.step, provider, asked, state)

    async def _move(self, step: Step, provider: Provider, asked: Asked, state: SandboxState) -> None:
        match step, asked.order:
            case Step.START, _:
                await self._start(provider, asked, state)
            case Step.FINISH_STARTING, _:
                await self._stop_if_refused(provider, asked, state.lifecycle_sequence)
            case Step.STOP, orders.StopSandbox() as order:
                await self._stop(provider, asked, order, state)
            case Step.PAUSE, _:
                await provider.pause(asked.sandbox)
                await self._append(asked, facts.SandboxPaused(by=asked.by), state.lifecycle_sequence)
            case Step.RESUME, _:
                await provider.resume(asked.sandbox)
                await self._append(asked, facts.SandboxResumed(by=asked.by), state.lifecycle_sequence)
            case Step.THAW, _:
                await thaw_untold(provider, asked.sandbox)
            case Step.REMOVE, orders.RemoveSandbox(reason=reason):
                reason += await self._worktrees.rescue(provider, state)
                reason += await self._flushing.before_removal(provider, state)
                await provider.remove(asked.sandbox)
                await self._append(asked, facts.SandboxRemoved(reason=reason, by=asked.by), state.lifecycle_sequence)
            case Step.SNAPSHOT, orders.SnapshotSandbox(label=label):
                await self._snapshot(asked, label, state)
            case Step.CHANGE_NETWORK, orders.ChangeNetwork(network=given):
                network = merge_network(state.spec.network, given)
                changed = facts.SandboxNetworkChanged(network=network, by=asked.by)
                await self._append(asked, changed, state.lifecycle_sequence)
            case Step.RECOVER, orders.RecoverSandbox() as order:
                await self._recoveries.begin(provider, order, asked.command, state, by=asked.by)
            case Step.FINISH_RECOVERING, _:
                await self._recoveries.finish(provider, state)
            case Step.GIVE_UP, orders.RecoverSandbox() as order:
                await self._recoveries.give_up(provider, order, asked.command, state)

    async def _start(self, provider: Provider, asked: Asked, state: SandboxState) -> None:
        await self._admission.before_starting(state)
        started = await provider.start(asked.sandbox)
        await self._attaching.before_commands(state, started.instance)
        begun = facts.SandboxStarted(instance=started.instance, by=asked.by)
        sequence = await self._append(asked, begun, state.lifecycle_sequence)
        await self._stop_if_refused(provider, asked, sequence)

    async def _stop_if_refused(self, provider: Provider, asked: Asked, sequence: int) -> None:
        """Whoever was started at `sequence` and found no room there."""
        refusal = await self._admission.verdict(asked.sandbox, sequence)
        if refusal is not None:
            await provider.stop(asked.sandbox, 0)
            stopped = facts.SandboxStopped(reason=refusal.message, failure=refusal.failure())
            await self._append(asked, stopped, sequence)

    async def _stop(self, provider: Provider, asked: Asked, order: orders.StopSandbox, state: SandboxState) -> None:
        try:
            await provider.stop(asked.sandbox, order.grace_ms / 1000)
        except SandboxNotFound:
            # Its recovery has not come so far, or it is ended for being lost.
            if not is_recovering(state) and order.failure is None:
                raise
        stopped = facts.SandboxStopped(reason=order.reason, failure=order.failure, by=asked.by)
        await self._append(asked, stopped, state.lifecycle_sequence)

    async def _snapshot(self, asked: Asked, label: str | None, state: SandboxState) -> None:
        """Once for each order: a repeated one has its answer in the log already."""
        if await self._journal.was_told(asked.sandbox, "sandbox.snapshotted", asked.command):
            return
        flushed = await self._flushing.snapshot(asked.sandbox)
        fact = facts.SandboxSnapshotted(
            manifest=flushed.manifest or "",
            files=flushed.files,
            size=flushed.bytes,
            label=label,
            sequence=flushed.sequence,
            by=asked.by,
        )
        await self._append(asked, fact, state.lifecycle_sequence)

    async def _claim(self, asked: Asked) -> SandboxState:
        spec = block_secrets(await self._wanted(asked), self._host_env, self._holds_secret)
        isolation = spec.isolation or self._default_isolation
        self._provider(isolation)
        await self._admission.before_creating(spec, asked.by)
        await self._forks.check(spec)
        spec = await self._worktrees.pin(asked.sandbox, msgspec.structs.replace(spec, isolation=isolation))
        creating = facts.SandboxCreating(spec=spec, isolation=isolation, node=self._journal.node, by=asked.by)
        await self._append(asked, creating, 0)
        state = await self._journal.lifecycle(asked.sandbox)
        if state is None or state.status != Status.CREATING:
            raise Conflict(f"sandbox {asked.sandbox!r} moved on at once")
        return state

    async def _wanted(self, asked: Asked) -> SandboxSpec:
        match asked.order:
            case orders.CreateSandbox(spec=given):
                return merge(self._defaults, given)
            case orders.ForkSandbox(sequence=sequence, spec=given):
                return await self._forks.spec(asked.sandbox, ForkOf(sandbox=asked.origin, sequence=sequence), given)
        raise Invalid(f"{type(asked.order).__name__} makes no sandbox")

    async def _bring_up(self, asked: Asked, state: SandboxState) -> None:
        provider = self._provider(state.isolation)
        request = CreateRequest(
            sandbox=asked.sandbox,
            node=self._journal.node,
            spec=state.spec,
            host_env=self._host_env,
            fill=self._forks.fill(asked.sandbox, state.spec),
        )
        try:
            async with figures.creating(), self._pool, self._reporter.about(asked.sandbox):
                with step("provider create", {"cloche.isolation": state.isolation.value}):
                    created = await provider.create(request)
                with step("provider start", {}):
                    started = await provider.start(asked.sandbox)
        except (ClocheError, OSError) as error:
            failure = _failure_of(error)
            with suppress(ClocheError, OSError):
                await provider.remove(asked.sandbox)
            await self._append(asked, facts.SandboxFailed(failure=failure), state.lifecycle_sequence)
            return
        way = await self._attaching.before_commands(state, started.instance)
        last = state.lifecycle_sequence
        if not state.created:
            last = await self._append(asked, self._created(created, state, way), last)
        if state.spec.workspace.source is not None:
            # Commands come once it is started: what they change is told only if it was known before.
            await self._flushing.first_look(asked.sandbox)
        await self._append(asked, facts.SandboxStarted(instance=started.instance, by=asked.by), last)

    def _created(self, created: Created, state: SandboxState, way: str | None) -> facts.SandboxCreated:
        enforcement: dict[str, str] = msgspec.to_builtins(created.enforcement)
        if state.spec.network.mode is NetworkMode.RESTRICTED:
            enforcement["network"] += f": {way or 'not attached yet'}"
        return facts.SandboxCreated(
            node=self._journal.node,
            isolation=state.isolation,
            workspace=created.workspace,
            enforcement=enforcement,
            environment=created.env_passed,
            blocked=created.env_blocked,
            notes=self._forks.take_notes(created.sandbox) + self._secret_notes(state.spec),
        )

    def _provider(self, isolation: Isolation) -> Provider:
        provider = self._providers.get(isolation)
        if provider is None:
            raise Invalid(
                f"node {self._journal.node!r} has no {isolation} sandboxes, only {', '.join(self._providers)}"
            )
        return provider

    async def _append(self, asked: Asked, fact: Fact, expected: int) -> int:
        return await self._journal.move(asked.sandbox, fact, expected=expected, command=asked.command)


def _failure_of(error: ClocheError | OSError) -> Failure:
    return error.failure() if isinstance(error, ClocheError) else SandboxCreationFailed(str(error)).failure()
