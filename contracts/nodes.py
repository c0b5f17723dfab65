"""What is known of nodes, and which of them takes a sandbox. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from contracts.codec import decode_fact
from contracts.errors import ClocheError, Invalid, NodeIsDrained, NodeIsLost, SandboxResourceLimitExceeded
from contracts.events import node as facts
from contracts.message import EventHead
from contracts.recovery import is_recovering
from contracts.spec import Isolation, SandboxSpec
from contracts.state import SandboxState, Status

DRAINED = "its node is being drained"
"""The reason of a recovery elsewhere, and of the end of what ran in the sandbox."""
DEAD_BEATS = 3
"""So many signs of life in a row are missing where a node is no longer counted on."""
SLACK_S = 2.0
BUSY = 4
"""So many times longer a node that has room is waited for than one that has none."""


class Standing(StrEnum):
    """What the log says of a node."""

    UNKNOWN = "unknown"
    JOINED = "joined"
    DRAINING = "draining"
    DRAINED = "drained"
    LOST = "lost"

    @property
    def takes_sandboxes(self) -> bool:
        return self in (Standing.UNKNOWN, Standing.JOINED)

    @property
    def gives_away(self) -> bool:
        """It takes none, and what it has is to leave."""
        return self in (Standing.DRAINING, Standing.DRAINED)


class NodeRecord(Struct, frozen=True, kw_only=True):
    """A fold of the `node` events of one node."""

    node: str
    standing: Standing = Standing.UNKNOWN
    sequence: int = 0
    """The last of them: what the next one must expect."""
    since: int = 0
    """The one that it has this standing by."""
    identity: str = ""
    """Of the host that has the name. Empty = it joined before there were any, or nobody has joined."""
    named: int = 0
    """The one that it has this identity by."""
    grace_ms: int = 0
    reason: str = ""
    noticed_by: str = ""
    kept: dict[str, str] = {}
    """Sandboxes that cannot leave while it is drained, and why."""


def fold_node(record: NodeRecord, sequence: int, head: EventHead) -> NodeRecord:
    """One event further. Raises `Invalid` when a known one cannot be read."""
    if sequence <= record.sequence:
        return record
    record = replace(record, sequence=sequence)
    match decode_fact(head):
        case facts.NodeJoined(identity=identity) if record.standing not in (Standing.UNKNOWN, Standing.LOST):
            return replace(record, identity=identity, named=sequence)
        case facts.NodeJoined(identity=identity):
            return _joined(replace(record, identity=identity, named=sequence))
        case facts.NodeResumed() | facts.NodeReturned():
            return _joined(record)
        case facts.NodeDraining(grace_ms=grace_ms, reason=reason):
            draining = replace(record, standing=Standing.DRAINING, since=sequence, kept={})
            return replace(draining, grace_ms=grace_ms, reason=reason)
        case facts.NodeKept(sandbox=sandbox, reason=reason):
            return replace(record, kept={**record.kept, sandbox: reason})
        case facts.NodeDrained():
            return replace(record, standing=Standing.DRAINED, since=sequence, kept={})
        case facts.NodeLost(reason=reason, noticed_by=noticed_by):
            return NodeRecord(
                node=record.node,
                standing=Standing.LOST,
                sequence=sequence,
                since=sequence,
                reason=reason,
                noticed_by=noticed_by,
                identity=record.identity,
                named=record.named,
            )
    return record


def _joined(record: NodeRecord) -> NodeRecord:
    """By its last event, and nothing of what was before."""
    return NodeRecord(
        node=record.node,
        standing=Standing.JOINED,
        sequence=record.sequence,
        since=record.sequence,
        identity=record.identity,
        named=record.named,
    )


def lost_order(node: str, sandbox: str, state: SandboxState | None) -> NodeIsLost:
    """Why an order for a node that is gone is refused, and what to do instead."""
    details = {"node": node} if state is None else {"node": node, "owner": state.node, "status": state.status.value}
    return NodeIsLost(f"node {node!r} is lost{_instead(node, sandbox, state)}", **details)


def _instead(node: str, sandbox: str, state: SandboxState | None) -> str:
    if state is None:
        return ""
    if state.status == Status.REMOVED:
        return f", and sandbox {sandbox!r} is removed"
    elsewhere = f"`cloche recover {sandbox} --node NODE` brings it to another"
    if state.node != node:
        how = "is being recovered" if is_recovering(state) else f"is {state.status}"
        return f"; sandbox {sandbox!r} {how} on node {state.node!r}: send it again"
    if state.status in (Status.RUNNING, Status.PAUSED, Status.CREATING):
        return f"; sandbox {sandbox!r} is to be recovered on another node: send it again when it runs, or {elsewhere}"
    return f"; sandbox {sandbox!r}, which is {state.status}, is there: {elsewhere}"


class Want(NamedTuple):
    """What a sandbox asks of its node."""

    isolation: Isolation | None
    labels: Mapping[str, str]
    memory_mb: int
    cpus: float


def want_of(spec: SandboxSpec) -> Want:
    return Want(spec.isolation, spec.node_labels, spec.resources.memory_mb, spec.resources.cpus)


class Candidate(NamedTuple):
    """A node that shows signs of life."""

    name: str
    vitals: facts.VitalsNode


def lacks_ever(vitals: facts.VitalsNode, want: Want) -> list[str]:
    """Why this node could not have it even if it were empty."""
    lacks = [
        f"label {key}={value}" + (f" (has {vitals.labels[key]})" if key in vitals.labels else "")
        for key, value in want.labels.items()
        if vitals.labels.get(key) != value
    ]
    if want.isolation is not None and vitals.tiers and want.isolation not in vitals.tiers:
        lacks.append(f"{want.isolation} sandboxes")
    if vitals.max_memory_mb is not None and want.memory_mb > vitals.max_memory_mb:
        lacks.append(f"{want.memory_mb} MB of memory (has {vitals.max_memory_mb})")
    if vitals.max_cpus is not None and want.cpus > vitals.max_cpus:
        lacks.append(f"{want.cpus:g} CPUs (has {vitals.max_cpus:g})")
    return lacks


def lacks_now(vitals: facts.VitalsNode, want: Want) -> list[str]:
    """What others have taken of what it would need."""
    lacks = []
    if vitals.sandboxes >= vitals.max_sandboxes:
        lacks.append(f"room: {vitals.sandboxes} of {vitals.max_sandboxes} sandboxes")
    if vitals.max_memory_mb is not None and vitals.memory_mb + want.memory_mb > vitals.max_memory_mb:
        lacks.append(f"memory: {vitals.memory_mb} of {vitals.max_memory_mb} MB are promised")
    if vitals.max_cpus is not None and vitals.cpus + want.cpus > vitals.max_cpus:
        lacks.append(f"CPUs: {vitals.cpus:g} of {vitals.max_cpus:g} are promised")
    return lacks


def why_not_here(want: Want, here: Candidate, *, has_it: bool) -> ClocheError | None:
    """Why a node that was named for a sandbox refuses it. `has_it`: its files are there, so labels do not matter."""
    lacks = [] if has_it else lacks_ever(here.vitals, want)
    if lacks:
        return Invalid(f"node {here.name!r} lacks {', '.join(lacks)}: leave the choice to the nodes, or name another")
    return _no_room(here, want) if lacks_now(here.vitals, want) else None


def drained_order(node: str, sandbox: str, *, exists: bool) -> NodeIsDrained:
    """Why a node that is to be left begins nothing new, and what to do instead."""
    instead = f"`cloche recover {sandbox} --node NODE` brings it to another" if exists else "name another node, or none"
    words = f"node {node!r} is being drained: {instead}; `cloche drain {node} --cancel` has it take sandboxes again"
    return NodeIsDrained(words, node=node)


class Placing(StrEnum):
    TAKE = "take"
    GIVE_BACK = "give_back"
    REFUSE = "refuse"


class Placement(NamedTuple):
    step: Placing
    refusal: ClocheError | None = None


def place(want: Want, here: Candidate, others: Sequence[Candidate], *, waited_s: float, patience_s: float) -> Placement:
    """What the node that was offered a sandbox does with the offer.

    Nobody waits for what can never be: where no node that is alive could have it, it is refused at once. Where nodes
    are merely full, or are being drained, others are waited for, unless there are no others: then nothing would change.
    One that has room and has not come for it yet is busy, and is waited for longer.
    """
    if not here.vitals.draining and not lacks_ever(here.vitals, want) and not lacks_now(here.vitals, want):
        return Placement(Placing.TAKE)
    everybody = [here, *others]
    fitting = [each for each in everybody if not each.vitals.draining and not lacks_ever(each.vitals, want)]
    if not fitting:
        return Placement(Placing.REFUSE, Invalid(f"no node can have it: {_words(everybody, want)}"))
    if fitting == [here] and not others:
        return Placement(Placing.REFUSE, _no_room(here, want))
    has_room = any(not lacks_now(each.vitals, want) for each in fitting)
    if waited_s >= patience_s * (BUSY if has_room else 1):
        words = f"no node has {'taken it' if has_room else 'had room'} for {waited_s:.0f} s: {_words(everybody, want)}"
        return Placement(Placing.REFUSE, SandboxResourceLimitExceeded(words))
    return Placement(Placing.GIVE_BACK)


def _no_room(here: Candidate, want: Want) -> ClocheError:
    if here.vitals.sandboxes >= here.vitals.max_sandboxes:
        return SandboxResourceLimitExceeded(f"node {here.name!r} has no room: see CLOCHE_MAX_SANDBOXES")
    return SandboxResourceLimitExceeded(f"node {here.name!r} has no room: {'; '.join(lacks_now(here.vitals, want))}")


def _words(nodes: Iterable[Candidate], want: Want) -> str:
    return "; ".join(f"{each.name} {_why_not(each.vitals, want)}" for each in nodes)


def _why_not(vitals: facts.VitalsNode, want: Want) -> str:
    if lacks := lacks_ever(vitals, want):
        return f"lacks {', '.join(lacks)}"
    if vitals.draining:
        return "is being drained"
    return f"has no {', no '.join(lacks_now(vitals, want))}" if lacks_now(vitals, want) else "has room"


class Silence:
    """For how long each of the others has shown no sign of life, in time in which we were listening.

    Only rounds that succeeded count, and each for little more than the interval: whoever was cut off or stopped must
    not take everybody else for gone.
    """

    def __init__(self) -> None:
        self._sequences: dict[str, int] = {}
        self._silent_s: dict[str, float] = {}

    def listened(self, sequences: Mapping[str, int], known: Iterable[str], passed_s: float) -> None:
        """`sequences` has the newest sign of each, `known` all nodes that there should be."""
        for node in {*known, *sequences}:
            heard = sequences.get(node, 0)
            is_news = node not in self._silent_s or heard != self._sequences.get(node, 0)
            self._silent_s[node] = 0.0 if is_news else self._silent_s[node] + passed_s
            self._sequences[node] = heard

    def of(self, node: str, *, heard: int | None = None) -> float:
        """`heard`: a sign that may be newer than what was listened to."""
        is_news = heard is not None and heard != self._sequences.get(node)
        return 0.0 if is_news else self._silent_s.get(node, 0.0)


def silence_s(every_s: float) -> float:
    """For so long one that is alive may be silent."""
    return every_s * DEAD_BEATS + SLACK_S


def is_alive(silent_s: float, every_s: float) -> bool:
    return silent_s <= silence_s(every_s)
