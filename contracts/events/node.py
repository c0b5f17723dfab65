"""Facts about a host that has sandboxes, written by the spawners; and its signs of life."""

import datetime

from contracts.message import Fact


class NodeJoined(Fact, frozen=True, kw_only=True):
    node: str
    labels: dict[str, str] = {}
    tiers: tuple[str, ...] = ()
    version: str = ""
    identity: str = ""
    """Of the host's data directory, which has the name from here on."""


class NodeDraining(Fact, frozen=True, kw_only=True):
    """It takes no new sandboxes from here on, and those that it has go elsewhere."""

    node: str
    reason: str = ""
    grace_ms: int = 0
    """How long what runs in each sandbox may go on before the sandbox is moved."""
    by: str = ""


class NodeKept(Fact, frozen=True, kw_only=True):
    """A sandbox cannot leave a node that is being drained. It is tried again."""

    node: str
    sandbox: str
    reason: str


class NodeDrained(Fact, frozen=True, kw_only=True):
    """Nothing lives on it any more."""

    node: str
    moved: int = 0
    stopped: tuple[str, ...] = ()
    """Stopped sandboxes whose workspaces are still there."""


class NodeResumed(Fact, frozen=True, kw_only=True):
    """The drain is over: it takes sandboxes again."""

    node: str
    by: str = ""


class NodeLost(Fact, frozen=True, kw_only=True):
    """It is taken for gone: what it had is recovered elsewhere, and nothing that it says of that counts any more."""

    node: str
    reason: str
    noticed_by: str
    """The node that said so first."""
    by: str = ""


class NodeReturned(Fact, frozen=True, kw_only=True):
    """A node that was taken for gone has found out, and has given up what is no longer its own."""

    node: str
    gave_up: tuple[str, ...] = ()


class VitalsNode(Fact, frozen=True, kw_only=True):
    """What a node has and what it has given away, every few seconds."""

    sandboxes: int
    max_sandboxes: int
    memory_mb: int = 0
    """Promised to what is alive."""
    max_memory_mb: int | None = None
    """None = not counted."""
    cpus: float = 0.0
    max_cpus: float | None = None
    machine_memory_mb: int = 0
    machine_cpus: int = 0
    load_average: float = 0.0
    labels: dict[str, str] = {}
    tiers: tuple[str, ...] = ()
    version: str = ""
    draining: bool = False
    started_at: datetime.datetime | None = None
    every_s: float = 5.0
    """Between two of these."""
    identity: str = ""
    """Whose sign it is, where two hosts have one name by mistake."""
