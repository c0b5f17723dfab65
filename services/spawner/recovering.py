"""Brings sandboxes back under the same id: after a death, on another node, or as they were before.

What is to be done stands in the log before it is done, so it can be gone on with after a crash at any point.
"""

import asyncio
import datetime
import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path

from contracts.commands.sandbox import RecoverSandbox
from contracts.errors import (
    ClocheError,
    Conflict,
    Failure,
    SandboxInvalidState,
    SandboxNotFound,
    SandboxStartFailed,
    Unavailable,
)
from contracts.events.sandbox import SandboxFailed, SandboxRecovered, SandboxRecovering
from contracts.message import Fact
from contracts.recovery import PATIENCE, attempts_used, backoff_ms, is_recovering, may_pass
from contracts.state import Recovery, SandboxState
from infra import clock
from infra.bus.connection import Bus
from infra.journal import Journal
from infra.sandbox.base import CreateRequest, Provider
from infra.sandbox.base import SandboxState as Seen
from infra.sandbox.forking import Fill
from infra.sandbox.side_door import HoldsSecret, block_secrets
from services.spawner import figures
from services.spawner.admission import Admission
from services.spawner.attaching import Attaching
from services.spawner.causes import died_with_its_engine, last_cause, time_down
from services.spawner.flushing import Flushing
from services.spawner.forks import Forks
from services.spawner.progress import Reporter

logger = logging.getLogger(__name__)

ASK_AGAIN_S, ASK_AGAIN_LATER_S = 1.0, 5.0
REASON_CHARACTERS = 1000


class Recoveries:
    def __init__(
        self,
        *,
        bus: Bus,
        journal: Journal,
        forks: Forks,
        flushing: Flushing,
        attaching: Attaching,
        pool: AbstractAsyncContextManager[object],
        reporter: Reporter,
        host_env: Mapping[str, str],
        holds_secret: HoldsSecret,
        admission: Admission,
        later: Callable[[str, float], None],
    ) -> None:
        """`later` has what is unfinished of a sandbox gone on with, after so many seconds."""
        self._bus = bus
        self._journal = journal
        self._forks = forks
        self._flushing = flushing
        self._attaching = attaching
        self._pool = pool
        self._reporter = reporter
        self._host_env = host_env
        self._holds_secret = holds_secret
        self._admission = admission
        self._later = later
        self._begun = clock.Moments()

    async def begin(
        self, provider: Provider, order: RecoverSandbox, command: str, state: SandboxState, *, by: str
    ) -> None:
        """From now on it is this node's. Raises `Conflict` when somebody else was faster, `Invalid` for a sequence at
        which nothing of its files is on record.
        """
        await self._admission.before_starting(state)
        recovering = SandboxRecovering(
            attempt=0 if order.instance is None else attempts_used(state, clock.now()) + 1,
            reason=order.reason,
            node=self._journal.node,
            sequence=await self._sequence(provider, order.sequence, state),
            by=by,
        )
        await self._journal.move(state.sandbox, recovering, expected=state.lifecycle_sequence, command=command)
        claimed = await self._journal.lifecycle(state.sandbox)
        if claimed is None or claimed.recovery is None or claimed.recovery.command != command:
            raise Conflict(f"sandbox {state.sandbox!r} moved on at once")
        await self.finish(provider, claimed)

    async def finish(self, provider: Provider, state: SandboxState) -> None:
        """As often as it takes: what fails is tried again later, until its attempts are spent."""
        recovery = _underway(state)
        self._begun.steady_at(state.sandbox, recovery.begun_at)
        refusal = await self._admission.verdict(state.sandbox, state.lifecycle_sequence)
        if refusal is not None:
            await self._move(state, SandboxFailed(failure=refusal.failure()))
            return
        try:
            async with self._pool, self._reporter.about(state.sandbox):
                instance = await self._bring_back(provider, recovery, state)
        except (ClocheError, OSError) as error:
            await self._has_failed(provider, recovery, state, failure_of(error))
            return
        await self._attaching.before_commands(state, instance)
        recovered = SandboxRecovered(
            attempt=recovery.attempt,
            node=self._journal.node,
            instance=instance,
            restored_sequence=recovery.sequence,
            notes=self._forks.take_notes(state.sandbox) + await time_down(self._bus, state, clock.now()),
        )
        await self._move(state, recovered)
        figures.recovered(recovery, "recovered")

    async def give_up(self, provider: Provider, order: RecoverSandbox, command: str, state: SandboxState) -> None:
        """It died too often. Its workspace stays, for a person to look at and to recover."""
        attempts = attempts_used(state, clock.now())
        if state.node == self._journal.node:
            with suppress(SandboxNotFound):
                await provider.stop(state.sandbox, 0)
            await self._flushing.settle(state.node, state.sandbox)
        failure = Failure(
            code="SANDBOX_DIED",
            message=f"it died again after {attempts} attempts to recover it: {order.reason}"[:REASON_CHARACTERS],
            details={"attempts": str(attempts), **await last_cause(self._journal, state.sandbox)},
        )
        failed = SandboxFailed(failure=failure)
        await self._journal.move(state.sandbox, failed, expected=state.lifecycle_sequence, command=command)
        figures.recovered(None, "given_up")

    async def _sequence(self, provider: Provider, wanted: int | None, state: SandboxState) -> int | None:
        """Where its files are taken from; None = they are here, newer than any record, or there is no record."""
        is_mine = state.node == self._journal.node
        if wanted is not None:
            await self._forks.check_past(state.sandbox, wanted)
        elif is_mine and await _may_have_workspace(provider, state.sandbox):
            return None
        if wanted is not None or not is_mine:
            # Whoever still follows its files may know more than the log.
            await self._flushing.settle(state.node, state.sandbox)
        return wanted or await self._forks.newest(state.sandbox)

    async def _bring_back(self, provider: Provider, recovery: Recovery, state: SandboxState) -> str:
        """Runs again; answers its instance."""
        if recovery.sequence is not None:
            await self._make_anew(provider, state, self._forks.past(state.sandbox, recovery.sequence))
        elif await has_workspace(provider, state.sandbox):
            await provider.stop(state.sandbox, 0)
        elif await self._forks.newest(state.sandbox) is not None:
            raise SandboxStartFailed(f"the workspace of {state.sandbox} is gone")
        else:
            await self._make_anew(provider, state, self._forks.fill(state.sandbox, state.spec))
            self._forks.note(state.sandbox, "workspace: nothing was on record, so it begins as its specification says")
        return (await provider.start(state.sandbox)).instance

    async def _make_anew(self, provider: Provider, state: SandboxState, fill: Fill | None) -> None:
        """What is there is not what is wanted, even if it is whole: it may be of another attempt."""
        await provider.remove(state.sandbox)
        await provider.create(
            CreateRequest(
                sandbox=state.sandbox,
                node=self._journal.node,
                spec=block_secrets(state.spec, self._host_env, self._holds_secret),
                host_env=self._host_env,
                fill=fill,
            )
        )

    async def _has_failed(self, provider: Provider, recovery: Recovery, state: SandboxState, failure: Failure) -> None:
        begun = self._begun.steady_at(state.sandbox, recovery.begun_at)
        waited = datetime.timedelta(seconds=clock.steady() - begun)
        with_engine = await died_with_its_engine(self._journal, state)
        if may_pass(waited, retryable=failure.retryable, engine_lost=with_engine):
            logger.warning("%s is recovered later: %s", state.sandbox, failure.message)
            self._later(state.sandbox, ASK_AGAIN_S if waited < PATIENCE else ASK_AGAIN_LATER_S)
        elif 0 < recovery.attempt < state.spec.restart.max_attempts:
            await self._try_again(provider, recovery, state, failure)
        else:
            with suppress(ClocheError, OSError):
                await provider.stop(state.sandbox, 0)
            if recovery.sequence is None:
                await self._flushing.settle(state.node, state.sandbox)
            details = {**failure.details, "attempts": str(recovery.attempt), "reason": recovery.reason}
            details |= await last_cause(self._journal, state.sandbox)
            message = f"it cannot be recovered: {failure.message}"[:REASON_CHARACTERS]
            await self._move(state, SandboxFailed(failure=Failure(code=failure.code, message=message, details=details)))
            figures.recovered(recovery, "failed")

    async def _try_again(self, provider: Provider, recovery: Recovery, state: SandboxState, failure: Failure) -> None:
        logger.warning("%s is not recovered by attempt %d: %s", state.sandbox, recovery.attempt, failure.message)
        reason = f"attempt {recovery.attempt} failed: {failure.message}"[:REASON_CHARACTERS]
        again = SandboxRecovering(
            attempt=recovery.attempt + 1,
            reason=reason,
            node=self._journal.node,
            sequence=recovery.sequence or await self._sequence(provider, None, state),
        )
        await self._move(state, again)
        figures.recovered(recovery, "retried")
        self._later(state.sandbox, backoff_ms(state, recovery.attempt) / 1000)

    async def _move(self, state: SandboxState, fact: Fact) -> None:
        """In the name of the order that the recovery was begun for. Raises `Conflict`."""
        command = _underway(state).command
        # Also where somebody else has moved it: this attempt is over.
        self._begun.forget(state.sandbox)
        await self._journal.move(state.sandbox, fact, expected=state.lifecycle_sequence, command=command)


def _underway(state: SandboxState) -> Recovery:
    assert is_recovering(state)
    assert state.recovery is not None
    return state.recovery


async def has_workspace(provider: Provider, sandbox: str) -> bool:
    """It is whole, whatever became of what ran in it. Raises `Unavailable`."""
    try:
        seen = await provider.inspect(sandbox)
        if seen is None or seen.state is Seen.CREATING:
            return False
        workspace = Path((await provider.created(sandbox)).host_workspace)
    except (SandboxInvalidState, SandboxNotFound):
        return False
    return await asyncio.to_thread(workspace.is_dir)


async def _may_have_workspace(provider: Provider, sandbox: str) -> bool:
    """Also while an engine that is away keeps us from looking: that is seen when it is back."""
    try:
        return await has_workspace(provider, sandbox)
    except Unavailable:
        return True


def failure_of(error: ClocheError | OSError) -> Failure:
    return error.failure() if isinstance(error, ClocheError) else SandboxStartFailed(str(error)).failure()
