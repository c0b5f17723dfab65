"""The port that every kind of sandbox implements, and the values that cross it."""

from collections.abc import AsyncIterator, Mapping
from enum import StrEnum
from types import TracebackType
from typing import Literal, Protocol, Self

from msgspec import Struct

from contracts.ids import NodeId, SandboxId
from contracts.spec import SandboxSpec
from infra.sandbox.forking import Fill
from infra.target import Target


class SandboxState(StrEnum):
    CREATING = "creating"
    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"
    ERROR = "error"


class CreateRequest(Struct, frozen=True, kw_only=True):
    sandbox: SandboxId
    node: NodeId
    spec: SandboxSpec
    host_env: Mapping[str, str] = {}
    """The environment that `passthrough` and `inherit_all` choose from."""
    fill: Fill | None = None
    """Restores the files of a fork, or of a sandbox that is made again: then its source is not looked at."""


class Enforcement(Struct, frozen=True, kw_only=True):
    """What holds each limit, in a few honest words; `not enforced` where nothing does."""

    memory: str
    cpus: str
    pids: str
    disk: str
    timeout: str
    network: str


class Created(Struct, frozen=True, kw_only=True):
    sandbox: SandboxId
    workspace: str
    """The path that commands see."""
    host_workspace: str
    """The directory on the node behind it."""
    env_passed: tuple[str, ...]
    """Names of all variables that commands start with, never values."""
    env_blocked: tuple[str, ...]
    """Names that were asked for and refused."""
    enforcement: Enforcement


class Started(Struct, frozen=True, kw_only=True):
    instance: str
    """New for each start: what ran under another instance is gone."""
    pid: int
    enforcement: Enforcement
    """What holds now; it differs from what `create` foresaw where the node has changed since."""


Cause = Literal["exit", "oom", "killed", "engine_lost", "unknown"]


class End(Struct, frozen=True, kw_only=True):
    """How a sandbox's first process came to its end, as far as anybody can tell."""

    cause: Cause
    detail: str = ""
    exit_code: int | None = None
    """128 + n where signal n ended it."""
    signal: int | None = None
    looked_at: tuple[str, ...] = ()
    """Where the cause was looked for, when it is unknown."""


class Inspection(Struct, frozen=True, kw_only=True):
    state: SandboxState
    instance: str | None = None
    """Of one that has ended: its last, unless it was told to end."""
    pid: int | None = None
    detail: str = ""
    end: End | None = None
    """Of one that has ended without being told to, by this provider in whatever process."""


class DiskUsage(Struct, frozen=True, kw_only=True):
    bytes: int
    entries: int
    unreadable: int = 0
    """Directories that could not be looked into, so `bytes` is a lower bound when this is not 0."""


class Stats(Struct, frozen=True, kw_only=True):
    memory_bytes: int
    cpu_seconds: float
    pids: int
    disk: DiskUsage
    oom_kills: int | None = None
    """Processes that the kernel killed for the memory limit; None where it keeps no count."""


class Use(Struct, frozen=True, kw_only=True):
    """What can be measured for nothing: all but the disk."""

    memory_bytes: int
    cpu_seconds: float
    pids: int
    network_in_bytes: int | None = None
    """None where it has no network."""
    network_out_bytes: int | None = None


class ProviderEvent(Struct, frozen=True, kw_only=True):
    """A sandbox's first process is gone, and everything in the sandbox with it."""

    sandbox: SandboxId
    instance: str
    kind: Literal["stopped", "died"]
    """`stopped` when this provider, in whatever process, was asked to end it; `died` otherwise."""
    end: End

    @property
    def cause(self) -> Cause:
        return self.end.cause

    @property
    def detail(self) -> str:
        return self.end.detail


class Snapshot(Struct, frozen=True, kw_only=True):
    reference: str


class Provider(Protocol):
    """One kind of sandbox on one node.

    Every order is idempotent: creating what exists, starting what runs, stopping what is stopped, removing what is
    absent succeed and change nothing. Orders for one sandbox are taken one at a time, in the order of their calls.
    An unknown sandbox is `SandboxNotFound`, except in `remove` and `inspect`.
    """

    name: str

    async def create(self, request: CreateRequest) -> Created:
        """Make the sandbox and its workspace; nothing runs yet.

        Raises `Invalid` for a specification that this tier cannot honour, `SandboxCreationFailed` when the node
        cannot make it.
        """
        ...

    async def start(self, sandbox: SandboxId) -> Started:
        """Run it. Returns once commands can be started. Raises `SandboxStartFailed` with the reason."""
        ...

    async def stop(self, sandbox: SandboxId, grace_s: float = 10.0) -> None:
        """Ask everything inside to end, then kill. Returns when no process is left.

        Raises `SandboxStopFailed` when something survives even that.
        """
        ...

    async def pause(self, sandbox: SandboxId) -> None:
        """Raises `SandboxInvalidState` unless it runs."""
        ...

    async def resume(self, sandbox: SandboxId) -> None:
        """Raises `SandboxInvalidState` unless it runs or is paused."""
        ...

    async def remove(self, sandbox: SandboxId) -> None:
        """Stop it and delete all that is its own. Raises `SandboxRemovalFailed` with what is in the way."""
        ...

    async def inspect(self, sandbox: SandboxId) -> Inspection | None:
        """What is really there now; None when the sandbox is unknown. Changes nothing."""
        ...

    async def created(self, sandbox: SandboxId) -> Created:
        """What `create` answered."""
        ...

    async def sandboxes(self) -> tuple[SandboxId, ...]:
        """All that are on this node, running or not."""
        ...

    async def stats(self, sandbox: SandboxId) -> Stats:
        """Raises `SandboxInvalidState` when it does not run, `SandboxStatsFailed` when it ends meanwhile."""
        ...

    async def use(self, sandbox: SandboxId, pid: int) -> Use:
        """Like `stats`, without the disk, and cheap. `pid` is what `inspect` has just answered."""
        ...

    async def oom_kills(self, sandbox: SandboxId) -> int | None:
        """Like the one in `stats`, and cheap."""
        ...

    async def disk_usage(self, sandbox: SandboxId) -> DiskUsage:
        """Size of the workspace, running or not. Never follows a symbolic link."""
        ...

    async def environment(self, sandbox: SandboxId) -> dict[str, str]:
        """The complete environment that a command starts with. It holds values: never log it."""
        ...

    async def target(self, sandbox: SandboxId) -> Target:
        """What a keeper needs to start a process. Raises `SandboxInvalidState` unless it was started."""
        ...

    def events(self) -> AsyncIterator[ProviderEvent]:
        """Deaths from now on, each reported once and at once.

        Covers what this object started or inspected, and everything that was running when iteration began.
        """
        ...

    async def snapshot(self, sandbox: SandboxId) -> Snapshot:
        """Raises `Invalid` where the tier has no snapshots."""
        ...

    async def prepare(self, spec: SandboxSpec) -> None:
        """Make and start a blank: `create` takes it for the next specification of the same shape.

        Raises what `create` and `start` raise, and `Invalid` where this tier has no blanks for such a specification.
        """
        ...

    async def blanks(self) -> dict[str, int]:
        """How many blanks are ready, by shape (`infra.sandbox.shape`)."""
        ...

    async def discard_blanks(self, keep: Mapping[str, int] | None = None) -> None:
        """Remove blanks beyond `keep` of each shape; none given = all."""
        ...

    async def sweep(self) -> None:
        """Remove what a crash left behind and no record accounts for. Never touches another node's."""
        ...

    async def aclose(self) -> None:
        """Let go. Sandboxes go on running."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
