"""Events as sentences. Pure."""

from collections.abc import Iterable

from contracts.askers import asker
from contracts.events import sandbox
from contracts.events.agent import AgentCompleted, AgentError, AgentStarted
from contracts.events.audit import DeadLetter
from contracts.events.command import CommandLost
from contracts.events.guardian import GuardianEscalated, GuardianIntervention
from contracts.events.health import HealthDied, HealthHealthy, HealthLimitExceeded, HealthUnhealthy
from contracts.message import Fact
from contracts.spec import SandboxSpec
from services.cli.causes import attempts_in_words, cause_of, consequence, details_of, excess_of, why_not_recovered
from services.cli.plot import Noted, Plot
from services.cli.story import Sentence

MONITOR = "health-"
"""How the health monitor's orders are named; believed where the order says that nobody asked for it."""
PROMPT = 200
"""Characters of what an agent is to do."""
ASKED = "asked"
"""The reason of those who give none."""

GOES_ON: dict[type[Fact], tuple[type[Fact], ...]] = {
    sandbox.SandboxCreating: (sandbox.SandboxCreated, sandbox.SandboxStarted),
    sandbox.SandboxCreated: (sandbox.SandboxStarted,),
    sandbox.SandboxRecovering: (sandbox.SandboxRecovered,),
}
"""What is told in one sentence with what came before it."""


def sentences(plot: Plot) -> list[Sentence]:
    """What is kept of the plot, in order. What is beside the point has places of its own."""
    moves = [_sentence(group, plot) for group in _grouped(plot.moves)][-plot.shown :]
    beside = sorted([*plot.letters, *plot.lost], key=lambda each: each.sequence)[-max(plot.shown // 2, 1) :]
    return sorted([*moves, *(_sentence([each], plot) for each in beside)], key=lambda each: each.sequences[0])


def _grouped(noted: Iterable[Noted]) -> list[list[Noted]]:
    groups: list[list[Noted]] = []
    for each in noted:
        if groups and isinstance(each.fact, GOES_ON.get(type(groups[-1][-1].fact), ())):
            groups[-1].append(each)
        else:
            groups.append([each])
    return groups


def _sentence(group: list[Noted], plot: Plot) -> Sentence:
    last = group[-1]
    step = plot.step_behind(last) if last.head.type.startswith("sandbox.") else None
    return Sentence(
        text=_text(group, plot),
        sequences=tuple(sorted([each.sequence for each in group] + ([step.sequence] if step else []))),
        at=last.head.time,
        asked_by=last.head.correlationid,
        last_output=last.fact.last_output if isinstance(last.fact, HealthDied) else "",
    )


def _text(group: list[Noted], plot: Plot) -> str:
    first = group[0]
    match first.fact:
        case sandbox.SandboxCreating() as creating:
            return _made(creating, group, plot)
        case sandbox.SandboxCreated():
            return "was made, and started" if len(group) > 1 else "was made"
        case sandbox.SandboxRecovering() as recovering:
            return _recovery(recovering, group, plot)
        case sandbox.SandboxRecovered() as recovered:
            return f"runs again, on node {recovered.node}{_workspace(recovered)}"
        case sandbox.SandboxStarted():
            return f"was started again, {by(first, plot)}"
        case sandbox.SandboxPaused():
            return f"was paused, {by(first, plot)}"
        case sandbox.SandboxResumed():
            return f"was resumed, {by(first, plot)}"
        case sandbox.SandboxStopped() as stopped:
            # What was told a line before is not told again.
            is_told = stopped.failure is not None and _health_before(first, plot) is not None
            return f"was stopped, {by(first, plot)}{'' if is_told else because(stopped.reason)}"
        case sandbox.SandboxRemoved() as removed:
            return f"was removed, {by(first, plot)}{because(removed.reason)}"
        case sandbox.SandboxFailed(failure=failure):
            return f"failed: {failure.message} ({failure.code})"
        case sandbox.SandboxNetworkChanged(network=network):
            hosts = ", ".join((*network.presets, *network.allowed_hosts)) or "nothing"
            return f"had its network changed, {by(first, plot)}: {network.mode}, and may reach {hosts}"
    return _around(first.fact, plot) or f"had the event {first.head.type}"


def _around(fact: Fact, plot: Plot) -> str | None:
    match fact:
        case HealthDied() as died:
            return _death(died, plot)
        case HealthLimitExceeded() as excess:
            return f"went over a limit: {excess_of(excess)}; {consequence(excess)}"
        case HealthHealthy(reason=reason):
            return f"was well again{because(reason)}"
        case HealthUnhealthy(reason=reason):
            return f"was not well: {reason}"
        case (
            GuardianIntervention(rule=rule, step=step, text=text) | GuardianEscalated(rule=rule, step=step, reason=text)
        ):
            return f"made the guardian's rule {rule} take the step {step}: {text}"
        case DeadLetter() as letter:
            return f"had an order that was given up: {order_of(letter)}: {letter.reason.message} ({letter.reason.code})"
        case AgentStarted(run=run, runtime=runtime, prompt=prompt):
            return f"had an agent begin (run {run}, {runtime}): {prompt[:PROMPT]}"
        case AgentCompleted(run=run, reason=reason):
            return f"had its agent end (run {run}): {reason}"
        case AgentError(run=run, failure=failure):
            return f"had its agent fail (run {run}): {failure.message} ({failure.code})"
        case CommandLost() as lost:
            return f"lost the command {lost.exec}: {lost.cause}; {lost.detail}"
    return None


def _made(creating: sandbox.SandboxCreating, group: list[Noted], plot: Plot) -> str:
    ends = {1: "was to be made", 2: "was made, and is not started yet"}
    words = ends.get(len(group), "was made and started")
    if len(group) == 2 and plot.arrival is not group[-1]:
        words = "was made"
    return f"{words} on node {creating.node} as a {creating.isolation} sandbox, {by(group[0], plot)}"


def _recovery(recovering: sandbox.SandboxRecovering, group: list[Noted], plot: Plot) -> str:
    words = attempts_in_words(recovering.attempt, spec_of(plot))
    died, last = _health_before(group[0], plot), group[-1].fact
    is_told = isinstance(died, HealthDied) and recovering.reason.startswith(f"{died.cause}:")
    where = f"on node {recovering.node}, {words}{'' if is_told else because(recovering.reason)}"
    if isinstance(last, sandbox.SandboxRecovered):
        return f"was recovered {where}{_workspace(last)}"
    return f"was to be recovered {where}"


def _health_before(noted: Noted, plot: Plot) -> Fact | None:
    """The last death or excess that is told before it."""
    told = (each.fact for each in reversed(plot.moves) if each.sequence < noted.sequence)
    return next((fact for fact in told if isinstance(fact, HealthDied | HealthLimitExceeded)), None)


def _workspace(recovered: sandbox.SandboxRecovered) -> str:
    notes = "".join(f"; {note}" for note in recovered.notes)
    if recovered.restored_sequence is None:
        return f"; its workspace was kept as it was{notes}"
    return f"; its workspace is that of sequence {recovered.restored_sequence}{notes}"


def _death(died: HealthDied, plot: Plot) -> str:
    spec = spec_of(plot)
    reason = why_not_recovered(died, spec)
    follows = "it is to be recovered" if reason is None else f"it is not recovered, because {reason}"
    return f"died: {cause_of(died, spec)}{details_of(died)}; {follows}"


def by(noted: Noted, plot: Plot) -> str:
    """Who asked for it."""
    step = plot.step_behind(noted)
    if step is not None and isinstance(step.fact, GuardianIntervention | GuardianEscalated):
        return f"by the guardian's rule {step.fact.rule}"
    command = noted.head.correlationid
    if command is None:
        return "and no command asked for it"
    unasked = isinstance(noted.fact, sandbox.SandboxStopped) and noted.fact.failure is not None
    if unasked and command.startswith(MONITOR):
        return f"by the health monitor (command {command})"
    who = asker(getattr(noted.fact, "by", ""))
    return f"by {who} (command {command})" if who else f"as command {command} asked"


def because(reason: str) -> str:
    return "" if reason in ("", ASKED) else f": {reason}"


def order_of(letter: DeadLetter) -> str:
    """`sandbox.start`, as far as its subject tells."""
    return ".".join(letter.subject.split(".")[4:6]) or letter.subject


def spec_of(plot: Plot) -> SandboxSpec:
    return SandboxSpec() if plot.state is None else plot.state.spec
