"""Every subject is built and parsed here, and nowhere else."""

from collections.abc import Sequence
from typing import NamedTuple

from contracts.errors import Invalid
from contracts.ids import is_token

ROOT = "cloche"
ANY_NODE = "any"
NO_SANDBOX = "_"
"""Stands for the sandbox where a message named none that could be read."""

COMMANDS = f"{ROOT}.cmd.>"
LOG = f"{ROOT}.log.>"
VITALS = f"{ROOT}.vitals.>"
LIVE_VITALS = f"{ROOT}.live_vitals.>"
LIVE = f"{ROOT}.live.>"
"""`cloche.live.<rest>` repeats `cloche.log.<rest>` once it has been stored, with its sequence in the headers.
`cloche.live_vitals` does the same for vitals."""

VERBS: dict[str, tuple[str, ...]] = {
    "sandbox": ("create", "start", "stop", "pause", "resume", "remove", "snapshot", "recover", "fork", "network"),
    "command": ("run", "input", "signal", "resize"),
    "agent": ("start", "message", "guidance", "interrupt", "approve", "reject", "pause", "resume", "stop"),
    "network": ("approve", "reject"),
    "replay": ("start", "pause", "resume", "seek", "step", "stop"),
    "audit": ("rotate",),
    "node": ("drain", "lose"),
}

FAMILIES: dict[str, tuple[str, ...]] = {
    "sandbox": (
        "creating", "created", "started", "paused", "resumed", "stopped", "removed", "failed", "snapshotted",
        "recovering", "recovered", "network_changed",
    ),
    "health": ("healthy", "unhealthy", "limit_exceeded", "died"),
    "command": ("started", "input", "output", "completed", "timed_out", "cancelled", "rejected", "lost"),
    "file": ("created", "modified", "deleted", "moved", "batch", "ready", "manifest", "overflow", "error"),
    "tool": ("invoked", "returned"),
    "agent": (
        "started", "attached", "thinking", "message", "tool_use", "tool_result", "approval_requested", "approved",
        "rejected", "interrupted", "paused", "resumed", "waiting", "closing", "delivered", "transcript", "metrics",
        "completed", "error",
    ),
    "user": ("message", "guidance", "interrupt", "approve", "reject", "pause", "resume", "stop"),
    "guardian": ("observed", "intervention", "escalated"),
    "network": ("allowed", "denied", "batch", "asked", "approved", "rejected", "attached", "unattached"),
    "audit": ("checkpoint", "rotated", "standby", "heir", "damaged"),
    "node": ("joined", "draining", "kept", "drained", "resumed", "lost", "returned"),
}  # fmt: skip

DEAD_LETTER = "dead_letter"
"""`dead_letter.<service>[.<command>]`: the kind is the service that gave up, so the server can hold who writes it."""


class CommandSubject(NamedTuple):
    node: str
    sandbox: str
    family: str
    verb: str


class RpcSubject(NamedTuple):
    node: str
    sandbox: str
    verb: str


class LogSubject(NamedTuple):
    sandbox: str
    family: str
    kind: str
    scope: str | None
    """The exec or run that the event belongs to."""


def _token(text: str, what: str) -> str:
    if not is_token(text):
        raise Invalid(f"{what} {text[:80]!r} is not a name: letters, digits, '-' and '_', 64 at most")
    return text


def command(node: str, sandbox: str, family: str, verb: str) -> str:
    named = sandbox if _about_no_sandbox(sandbox, family) else _token(sandbox, "sandbox")
    return f"{ROOT}.cmd.{_token(node, 'node')}.{named}.{family}.{verb}"


def _about_no_sandbox(sandbox: str, family: str) -> bool:
    """Orders about the log itself, and about nodes."""
    return sandbox == NO_SANDBOX and family in ("audit", "node")


def command_filter(node: str, family: str) -> str:
    """Every command of a family for a node, well-formed or not, so that none is left lying."""
    return f"{ROOT}.cmd.{_token(node, 'node')}.*.{family}.>"


def create(sandbox: str) -> str:
    """Creation goes to any node: the one with room pulls it."""
    return command(ANY_NODE, sandbox, "sandbox", "create")


def parse_command(subject: str) -> CommandSubject:
    """Raises `Invalid` for anything that is not a command subject with a known family and verb."""
    parts = subject.split(".")
    if len(parts) != 6 or parts[:2] != [ROOT, "cmd"]:
        raise Invalid(f"{subject[:200]!r} is not cloche.cmd.<node>.<sandbox>.<family>.<verb>")
    found = CommandSubject(*parts[2:])
    _token(found.node, "node")
    if not _about_no_sandbox(found.sandbox, found.family):
        _token(found.sandbox, "sandbox")
    if found.family not in VERBS:
        raise Invalid(f"unknown command family {found.family[:80]!r}: one of {', '.join(VERBS)}")
    if found.verb not in VERBS[found.family]:
        raise Invalid(f"unknown verb {found.verb[:80]!r} for {found.family}: one of {', '.join(VERBS[found.family])}")
    return found


def sandbox_of(subject: str) -> str:
    """The sandbox that a command or log subject names, `_` where it cannot be read. Never raises."""
    parts = subject.split(".")
    at = 3 if parts[1:2] == ["cmd"] else 2
    return parts[at] if len(parts) > at and is_token(parts[at]) else NO_SANDBOX


def event(sandbox: str, tag: str, scope: str | None = None) -> str:
    """`tag` is `<family>.<kind>`; `scope` is the exec or run, where the event has one."""
    named = sandbox if sandbox == NO_SANDBOX else _token(sandbox, "sandbox")
    base = f"{ROOT}.log.{named}.{tag}"
    return base if scope is None else f"{base}.{_token(scope, 'scope')}"


def dead_letter(sandbox: str, service: str, command: str | None = None) -> str:
    """`command` is the id of the command that was given up, where it could be read."""
    return event(sandbox, f"{DEAD_LETTER}.{service}", command)


def parse_event(subject: str) -> LogSubject:
    """Raises `Invalid` for anything that is not a log subject. Unknown families and kinds pass: readers outlive us."""
    parts = subject.split(".")
    if len(parts) not in (5, 6) or parts[:2] != [ROOT, "log"]:
        raise Invalid(f"{subject[:200]!r} is not cloche.log.<sandbox>.<family>.<kind>[.<scope>]")
    return LogSubject(parts[2], parts[3], parts[4], parts[5] if len(parts) == 6 else None)


def events_of(
    sandbox: str = "*", *, family: str | None = None, kind: str | None = None, scope: str | None = None
) -> list[str]:
    """Filters for one sandbox's (or every sandbox's) events, narrowed by family, kind, exec or run."""
    base = f"{ROOT}.log.{sandbox}"
    if scope is not None:
        return [f"{base}.{family or '*'}.{kind or '*'}.{scope}"]
    if kind is not None:
        return [f"{base}.{family or '*'}.{kind}", f"{base}.{family or '*'}.{kind}.*"]
    return [f"{base}.{family}.>" if family else f"{base}.>"]


def typed(sandbox: str, types: Sequence[str]) -> list[str]:
    """Filters for one sandbox's events of the given tags (`command.output`) or families (`command`); none = all."""
    found: list[str] = []
    for wanted in types:
        family, _, kind = wanted.partition(".")
        found += events_of(
            sandbox, family=_token(family, "event family"), kind=_token(kind, "event kind") if kind else None
        )
    return found or events_of(sandbox)


def lifecycle(sandbox: str) -> str:
    """The subjects whose last sequence guards a sandbox's lifecycle."""
    return f"{ROOT}.log.{sandbox}.sandbox.*"


def claims(sandbox: str) -> str:
    """The subject whose last sequence tells since when a sandbox has the owner that it has: 0 = since it was made."""
    return event(sandbox, "sandbox.recovering")


def health_events(sandbox: str) -> str:
    """The subjects whose last sequence guards what is told of a sandbox's health."""
    return f"{ROOT}.log.{_token(sandbox, 'sandbox')}.health.*"


def told_of(sandbox: str, exec_id: str) -> str:
    """The subjects whose last sequence guards what is told of a command."""
    return events_of(sandbox, family="command", scope=exec_id)[0]


def outputs(sandbox: str) -> str:
    """What the commands of a sandbox wrote."""
    return f"{ROOT}.log.{_token(sandbox, 'sandbox')}.command.output.*"


def file_events(sandbox: str) -> str:
    """The subjects whose last sequence guards what is told of a sandbox's files."""
    return f"{ROOT}.log.{_token(sandbox, 'sandbox')}.file.*"


def vitals(sandbox: str, kind: str) -> str:
    return f"{ROOT}.vitals.{_token(sandbox, 'sandbox')}.{kind}"


def vitals_of_all(kind: str) -> str:
    return f"{ROOT}.vitals.*.{kind}"


def node_events(node: str = "*") -> str:
    """The subjects whose last sequence guards what is told of a node."""
    return f"{ROOT}.log.{NO_SANDBOX}.node.*.{node if node == '*' else _token(node, 'node')}"


def node_vitals(node: str = "*") -> str:
    """The signs of life of one node, or of all."""
    return f"{ROOT}.vitals.{NO_SANDBOX}.node.{node if node == '*' else _token(node, 'node')}"


def duty_vitals(service: str) -> str:
    """Which node runs a service of which there is one."""
    return f"{ROOT}.vitals.{NO_SANDBOX}.duty.{service}"


def rpc(family: str, node: str, sandbox: str, verb: str) -> str:
    """Where a node answers about one of its sandboxes: `files`, `git`, `watch` or `egress`."""
    return f"{ROOT}.rpc.{_token(node, 'node')}.{_token(sandbox, 'sandbox')}.{family}.{_token(verb, 'verb')}"


def rpc_filter(family: str, node: str) -> str:
    """Every request of a family about the sandboxes of a node."""
    return f"{ROOT}.rpc.{_token(node, 'node')}.*.{family}.*"


def parse_rpc(family: str, subject: str) -> RpcSubject:
    """Raises `Invalid` for anything that is not `rpc` of this family, and some node, sandbox and verb."""
    parts = subject.split(".")
    if len(parts) != 6 or parts[:2] != [ROOT, "rpc"] or parts[4] != family:
        raise Invalid(f"{subject[:200]!r} is not cloche.rpc.<node>.<sandbox>.{family}.<verb>")
    return RpcSubject(_token(parts[2], "node"), _token(parts[3], "sandbox"), _token(parts[5], "verb"))


def checkpoints() -> str:
    """The checkpoints of the chain over the log."""
    return event(NO_SANDBOX, "audit.checkpoint")


def state_rpc(verb: str) -> str:
    return f"{ROOT}.rpc.state.{verb}"


def replayed(replay: str, original: str) -> str:
    """Where a paced replay puts an event whose subject in the log was `original`."""
    return f"{ROOT}.replay.{_token(replay, 'replay')}.{original.removeprefix(f'{ROOT}.log.')}"


def replay_status(replay: str) -> str:
    """Where a paced replay tells how it stands."""
    return f"{ROOT}.replay.{_token(replay, 'replay')}.{NO_SANDBOX}.status"


def replay_of(replay: str) -> str:
    """Everything that a paced replay plays and tells."""
    return f"{ROOT}.replay.{_token(replay, 'replay')}.>"


ARCHIVE = f"{ROOT}.archive.>"
"""`cloche.archive.<import>.<rest>` is an imported event whose subject in its own log was `cloche.log.<rest>`."""


def archived(import_: str, subject: str) -> str:
    """Where an event that was `cloche.log.…` lies in the archive. The same for a filter."""
    return f"{ROOT}.archive.{_token(import_, 'import')}.{subject.removeprefix(f'{ROOT}.log.')}"


def unarchived(subject: str) -> str:
    return f"{ROOT}.log.{subject.split('.', 3)[-1]}"


def import_record(sandbox: str) -> str:
    """What tells that a sandbox was imported. `*` = all of them."""
    named = sandbox if sandbox == "*" else _token(sandbox, "sandbox")
    return f"{ROOT}.archive.{NO_SANDBOX}.imported.{named}"
