"""A sandbox, as a program outside sees it."""

import datetime
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from contracts import codec, subjects
from contracts.commands import sandbox as orders
from contracts.commands.command import Asker, PtySize, RunCommand
from contracts.errors import Conflict, SandboxNotFound, from_failure
from contracts.events.sandbox import SandboxRecovered, SandboxRecovering, SandboxSnapshotted
from contracts.message import EventHead, Order
from contracts.payload import unpack
from contracts.proof import TERMINAL
from contracts.spec import Network
from contracts.state import SandboxState, Status, apply
from contracts.watch import Flush, Flushed
from contracts.worktrees import ANSWERS, CommitWorktree, DiffWorktree, WorktreeCommit, WorktreeDiff
from infra.bus import reader
from infra.bus.connection import Bus
from infra.bus.live import Live
from infra.client.asking import ask
from infra.client.execution import CommandResult, Execution
from infra.client.files import Files
from infra.client.orders import publish, raise_if_given_up
from infra.ids import new_id
from infra.states import state_of

if TYPE_CHECKING:
    from contracts.past import StateAt
    from contracts.screens import Screen
    from infra.client.agent import Agent
    from infra.client.history import FileHistory
    from infra.client.network import NetworkAccess

GIT_TIMEOUT_S = 120.0
"""The server forgets whom to answer after two minutes."""


FLUSH_TIMEOUT_S = 60.0


class LogEvent(NamedTuple):
    sequence: int
    subject: str
    head: EventHead
    raw: bytes
    """Verbatim, as it stands in the log."""


class Diff(NamedTuple):
    data: bytes
    """A unified diff, or a summary by file."""
    truncated: bool
    """There was more than fits into one answer."""
    base: str
    """The commit that the workspace began from."""
    branch: str


class Snapshot(NamedTuple):
    sequence: int
    """The files at this sequence are those of the manifest."""
    manifest: str
    """sha256 of the manifest's blob."""
    files: int
    """Entries of every kind."""
    size: int
    """Bytes of all contents."""


class Recovered(NamedTuple):
    node: str
    """Whose it is now."""
    sequence: int | None
    """The workspace is as it was then; None = it was kept as it is."""
    notes: tuple[str, ...]
    """What could not be brought back, and the like."""


class Sandbox:
    def __init__(self, bus: Bus, state: SandboxState) -> None:
        self._bus = bus
        self.state = state
        """As of the last call that looked."""

    @property
    def id(self) -> str:
        return self.state.sandbox

    @property
    def history(self) -> "FileHistory":
        """Its files at any sequence of the log, running or gone."""
        # Few need it, and importing it would be a tenth of a short command line.
        from infra.client.history import FileHistory

        return FileHistory(self._bus, self.id, self.state.first_sequence)

    async def at(self, sequence: int | None = None, *, time: datetime.datetime | None = None) -> "StateAt":
        """How it was after the event with a sequence, or after what was stored up to a time: see `past.state_at`."""
        from infra.client.past import state_at

        return await state_at(self._bus, self.id, sequence, time=time)

    async def screen(
        self,
        exec: str | None = None,  # noqa: A002
        at: int | datetime.datetime | None = None,
        scrollback: int = 0,
    ) -> "Screen":
        """What the terminal of a command showed, at a sequence or a time: see `screens.screen_at`."""
        from infra.client.screens import screen_at

        return await screen_at(self._bus, self.id, exec, at, scrollback)

    async def start(
        self,
        command: str | Sequence[str],
        *,
        id: str | None = None,  # noqa: A002
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout_ms: int | None = None,
        stdin: bool = False,
        pty: PtySize | None = None,
        asker: Asker = Asker.USER,
        tap: Live | None = None,
    ) -> Execution:
        """Ask for a command and return at once. A string goes to the shell, a sequence is run as it is.

        `tap` follows a new `id` from before it is used, so that the log need not be asked for what it already has.
        """
        exec_id = id or new_id("e")
        order = RunCommand(
            argv=None if isinstance(command, str) else tuple(command),
            shell=command if isinstance(command, str) else None,
            cwd=cwd,
            env=dict(env or {}),
            timeout_ms=timeout_ms,
            stdin=stdin,
            pty=pty,
            asker=asker,
        )
        await publish(self._bus, self.state.node, self.id, order, id=exec_id)
        return self._execution(exec_id, written=0, tap=tap)

    def execution(self, exec_id: str, *, written: int | None = None) -> Execution:
        """Any command of this sandbox, past or present.

        `written`: what is written from now on belongs there in its stdin; absent = at the end.
        """
        return self._execution(exec_id, written=written)

    def _execution(self, exec_id: str, written: int | None, tap: Live | None = None) -> Execution:
        return Execution(
            self._bus,
            node=self.state.node,
            sandbox=self.id,
            exec_id=exec_id,
            start=self.state.first_sequence,
            written=written,
            tap=tap,
        )

    async def running(self) -> list[str]:
        """Commands that have started and not ended, oldest first."""
        begun: dict[str, None] = {}
        async for event in self.events(types=["command.started", *(f"command.{kind}" for kind in TERMINAL)]):
            exec_id = subjects.parse_event(event.subject).scope or ""
            if event.head.type == "command.started":
                begun[exec_id] = None
            else:
                begun.pop(exec_id, None)
        return list(begun)

    async def run(
        self,
        command: str | Sequence[str],
        *,
        input: bytes | None = None,  # noqa: A002
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout_ms: int | None = None,
    ) -> CommandResult:
        """Run to the end. Raises only when the sandbox is at fault; a failed command is a result."""
        exec_id = new_id("e")
        async with Live.open(self._bus, subjects.events_of(self.id, scope=exec_id)) as tap:
            execution = await self.start(
                command, id=exec_id, cwd=cwd, env=env, timeout_ms=timeout_ms, stdin=input is not None, tap=tap
            )
            if input is not None:
                await execution.write(input)
                await execution.close_stdin()
            return await execution.wait()

    async def events(
        self,
        start: int | None = None,
        *,
        types: Sequence[str] = (),
        follow: bool = False,
        on_gap: reader.OnGap | None = None,
    ) -> AsyncIterator[LogEvent]:
        """Its events from a sequence on; `types` are tags (`command.output`) or families (`command`).

        `on_gap` is told what the log lacks in that range, as of `reader.read`: nobody can say whose that was.
        """
        filters, begin = subjects.typed(self.id, types), start or self.state.first_sequence
        async for entry in reader.read(self._bus, filters, begin, follow=follow, on_gap=on_gap):
            yield LogEvent(entry.seq, entry.subject, codec.decode_head(entry.data), entry.data)

    async def stop(self, *, grace_ms: int = 10_000, reason: str = "asked") -> None:
        order = orders.StopSandbox(grace_ms=grace_ms, reason=reason)
        await self._until({Status.STOPPED, Status.FAILED, Status.REMOVED}, order)

    async def boot(self) -> None:
        """Start it again after a stop. The workspace is as it was."""
        await self._until({Status.RUNNING}, orders.StartSandbox())

    async def pause(self) -> None:
        await self._until({Status.PAUSED}, orders.PauseSandbox())

    async def resume(self) -> None:
        await self._until({Status.RUNNING}, orders.ResumeSandbox())

    async def recover(self, *, at: int | None = None, node: str | None = None, reason: str = "asked") -> Recovered:
        """Have it made again under the same id, and wait until it runs: what runs in it now is ended.

        Its workspace is kept as it is, unless `at` names a sequence of the log to go back to, or another `node` is to
        have it from now on; then it is restored from the log. Also for one that was stopped, has failed, or whose node
        is gone for good.

        Raises `SandboxInvalidState` for one that is removed, `Invalid` where nothing of its files is on record at that
        sequence, `Conflict` when somebody else recovers it meanwhile, or what keeps it from being made.
        """
        self.state = await load_state(self._bus, self.id)
        order = orders.RecoverSandbox(reason=reason, sequence=at)
        command = await publish(self._bus, node or self.state.node, self.id, order)
        begun = False
        async for head, state in _told(self._bus, self.id, command, self.state, self.state.lifecycle_sequence):
            self.state = state
            fact = codec.decode_fact(head)
            if head.correlationid == command and isinstance(fact, SandboxRecovered):
                return Recovered(fact.node, fact.restored_sequence, fact.notes)
            if head.correlationid == command:
                begun = begun or isinstance(fact, SandboxRecovering)
            elif begun:
                raise Conflict(f"sandbox {self.id!r} is {state.status}: somebody else has moved it meanwhile")
        raise SandboxNotFound(f"there is no sandbox {self.id!r}")

    async def remove(self, *, reason: str = "asked") -> None:
        await self._until({Status.REMOVED}, orders.RemoveSandbox(reason=reason))

    async def flush(self, *, manifest: bool = False) -> Flushed:
        """Everything that is in its workspace now is in the log, at or before the sequence of the answer.

        `manifest` also stores a list of the whole tree. Raises `SandboxNotFound`, `SandboxInvalidState` for one that
        is removed, `Unavailable` while nobody follows its files.
        """
        subject = subjects.rpc("watch", self.state.node, self.id, "flush")
        request = Flush(manifest=manifest)
        answer: Flushed = await ask(self._bus, subject, request, Flushed, timeout=FLUSH_TIMEOUT_S)
        return answer

    async def snapshot(self, *, label: str | None = None) -> Snapshot:
        """Have the log name the whole of its workspace as it is now: a point to come back to.

        Raises `SandboxInvalidState` for one that is removed, or still being made.
        """
        self.state = await load_state(self._bus, self.id)
        command = await publish(self._bus, self.state.node, self.id, orders.SnapshotSandbox(label=label))
        filters = [
            *subjects.events_of(self.id, family="sandbox", kind="snapshotted"),
            *subjects.events_of(self.id, family=subjects.DEAD_LETTER, scope=command),
        ]
        async for entry in reader.read(self._bus, filters, self.state.lifecycle_sequence, follow=True):
            head = codec.decode_head(entry.data)
            raise_if_given_up(head, command)
            fact = codec.decode_fact(head)
            if isinstance(fact, SandboxSnapshotted) and head.correlationid == command:
                return Snapshot(fact.sequence or entry.seq, fact.manifest, fact.files, fact.size)
        raise SandboxNotFound(f"there is no sandbox {self.id!r}")

    async def diff(self, *, stat: bool = False) -> Diff:
        """What differs in its workspace from the commit that it began from, running or not.

        Untracked files are in it, ignored ones are not. Raises `Invalid` unless the workspace came from a git
        repository, `SandboxInvalidState` for a repository that was destroyed inside or a sandbox that is removed.
        """
        answer: WorktreeDiff = await self._ask_git("diff", DiffWorktree(stat=stat))
        return Diff(unpack(answer.data, answer.encoding), answer.truncated, answer.base, answer.branch)

    async def commit(self, message: str) -> WorktreeCommit:
        """Commit everything in its workspace, and bring its branch into the repository that it came from.

        Also brings commits that were made inside. Raises what `diff` raises, and `Conflict` when the repository's
        branch of that name has other commits, or is checked out there.
        """
        answer: WorktreeCommit = await self._ask_git("commit", CommitWorktree(message=message))
        return answer

    @property
    def net(self) -> "NetworkAccess":
        """Its way out: what passed, what was denied, what waits for an answer."""
        from infra.client.network import NetworkAccess

        return NetworkAccess(self._bus, self.id)

    @property
    def agent(self) -> "Agent":
        """The agents that work in it: begun, followed, spoken to."""
        from infra.client.agent import Agent

        return Agent(self._bus, self.state)

    async def network(self, **changes: Any) -> Network:
        """Change fields of its `Network`; see `NetworkAccess.change`."""
        return await self.net.change(**changes)

    async def approve_network(self, approval: str, *, reason: str = "", remember: bool = False) -> None:
        """See `NetworkAccess.approve`."""
        await self.net.approve(approval, reason=reason, remember=remember)

    async def reject_network(self, approval: str, *, reason: str = "", remember: bool = False) -> None:
        """See `NetworkAccess.reject`."""
        await self.net.reject(approval, reason=reason, remember=remember)

    @property
    def files(self) -> Files:
        """Its files, as long as it has a workspace."""
        return Files(self._bus, node=self.state.node, sandbox=self.id)

    async def _ask_git(self, verb: str, request: Order) -> Any:
        subject = subjects.rpc("git", self.state.node, self.id, verb)
        return await ask(self._bus, subject, request, ANSWERS[verb], timeout=GIT_TIMEOUT_S)

    async def _until(self, wanted: set[Status], order: Order) -> None:
        self.state = await load_state(self._bus, self.id)
        command = await publish(self._bus, self.state.node, self.id, order)
        self.state = await settled(self._bus, command, wanted, self.state)


async def load_state(bus: Bus, sandbox: str) -> SandboxState:
    """As the log has it now. Raises `SandboxNotFound`."""
    state = await state_of(bus, sandbox)
    if state is None:
        raise SandboxNotFound(f"there is no sandbox {sandbox!r}")
    return state


async def brought_up(bus: Bus, sandbox: str, command: str) -> SandboxState:
    """Follow a `sandbox.create` to its end. Raises the reason when it was refused, or when the sandbox failed."""
    async for state in _moves(bus, sandbox, command, None, 1):
        if state.requested_by == command and state.status == Status.RUNNING:
            return state
    raise SandboxNotFound(f"there is no sandbox {sandbox!r}")


async def settled(bus: Bus, command: str, wanted: set[Status], state: SandboxState) -> SandboxState:
    """Follow the log until the sandbox is in a wanted state.

    Raises the reason when the command was given up, or when the sandbox failed instead.
    """
    if state.status in wanted:
        return state
    async for moved in _moves(bus, state.sandbox, command, state, state.lifecycle_sequence):
        if moved.status in wanted:
            return moved
    raise SandboxNotFound(f"there is no sandbox {state.sandbox!r}")


async def _moves(
    bus: Bus, sandbox: str, command: str, state: SandboxState | None, start: int
) -> AsyncIterator[SandboxState]:
    async for _, moved in _told(bus, sandbox, command, state, start):
        yield moved


async def _told(
    bus: Bus, sandbox: str, command: str, state: SandboxState | None, start: int
) -> AsyncIterator[tuple[EventHead, SandboxState]]:
    filters = [subjects.lifecycle(sandbox), *subjects.events_of(sandbox, family=subjects.DEAD_LETTER, scope=command)]
    async for entry in reader.read(bus, filters, start, follow=True):
        head = codec.decode_head(entry.data)
        raise_if_given_up(head, command)
        state = apply(state, entry.seq, head)
        if state is None:
            continue
        yield head, state
        if state.status == Status.FAILED and state.error is not None and head.correlationid == command:
            raise from_failure(state.error)
