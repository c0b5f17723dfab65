"""Facts about a sandbox's life, written by the spawner."""

from contracts.errors import Failure
from contracts.message import Fact
from contracts.spec import Isolation, Network, SandboxSpec


class SandboxCreating(Fact, frozen=True, kw_only=True):
    spec: SandboxSpec
    """As resolved: what was asked for, laid over the node's defaults."""
    isolation: Isolation
    node: str
    by: str = ""
    """Who asked for it: the `source` of the order, such as `gateway/alice`."""


class SandboxCreated(Fact, frozen=True, kw_only=True):
    node: str
    isolation: Isolation
    workspace: str
    enforcement: dict[str, str] = {}
    """Limit → what really enforces it, in words."""
    environment: tuple[str, ...] = ()
    """Names of the variables inside. Values are not on the record."""
    blocked: tuple[str, ...] = ()
    """Names that were asked for and refused."""
    notes: tuple[str, ...] = ()
    container: str | None = None


class SandboxStarted(Fact, frozen=True, kw_only=True):
    instance: str
    """Tells one life of the sandbox from the next."""
    by: str = ""
    """As in `sandbox.creating`, here and in what follows."""


class SandboxPaused(Fact, frozen=True, kw_only=True):
    by: str = ""


class SandboxResumed(Fact, frozen=True, kw_only=True):
    by: str = ""


class SandboxStopped(Fact, frozen=True, kw_only=True):
    reason: str
    failure: Failure | None = None
    """Set when nobody asked for the stop: a limit, a death."""
    by: str = ""


class SandboxRemoved(Fact, frozen=True, kw_only=True):
    reason: str
    by: str = ""


class SandboxFailed(Fact, frozen=True, kw_only=True):
    failure: Failure


class SandboxSnapshotted(Fact, frozen=True, kw_only=True):
    manifest: str
    """sha256 of the manifest's blob."""
    files: int
    size: int
    label: str | None = None
    sequence: int | None = None
    """The `file.manifest` that told it: the files at this sequence are those of the manifest."""
    by: str = ""


class SandboxRecovering(Fact, frozen=True, kw_only=True):
    attempt: int
    """0 where a person asked: that does not count."""
    reason: str
    node: str
    """Whose it is from now on."""
    sequence: int | None = None
    """The workspace is made anew as it was then. Absent = it is kept as it is."""
    by: str = ""


class SandboxRecovered(Fact, frozen=True, kw_only=True):
    attempt: int
    node: str
    instance: str
    restored_sequence: int | None = None
    notes: tuple[str, ...] = ()
    """What of the workspace could not be brought back, and the like."""


class SandboxNetworkChanged(Fact, frozen=True, kw_only=True):
    network: Network
    """As it is from now on, whole."""
    by: str = ""
