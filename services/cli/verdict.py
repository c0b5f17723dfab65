"""The state of a sandbox in one sentence. Pure."""

import datetime

from msgspec.structs import replace

from contracts.events import sandbox
from contracts.events.audit import DeadLetter
from contracts.events.health import HealthDied, HealthHealthy, HealthLimitExceeded, HealthUnhealthy
from contracts.recovery import is_recovering
from contracts.state import SandboxState, Status
from services.cli.causes import attempts_in_words, cause_of, excess_of, why_not_recovered
from services.cli.measures import duration
from services.cli.plot import Noted, Plot
from services.cli.sentences import because, by, order_of
from services.cli.story import Sentence

CREATE = "sandbox.create"


def headline(plot: Plot, now: datetime.datetime, unseen_since: datetime.datetime | None = None) -> Sentence | None:
    """None where the log knows nothing of such a sandbox."""
    if plot.state is None or plot.arrival is None:
        return _never_made(plot)
    said = _of(plot.state, plot.arrival, plot, now)
    if unseen_since is None:
        return said
    unseen = duration((now - unseen_since).total_seconds() * 1000)
    return replace(said, text=f"{said.text}; but nobody has seen it for {unseen}, so that may be over")


def _of(state: SandboxState, arrival: Noted, plot: Plot, now: datetime.datetime) -> Sentence:
    match state.status:
        case Status.CREATING:
            return _being_made(state, arrival, plot, now)
        case Status.RUNNING:
            return _running(state, arrival, plot)
        case Status.PAUSED:
            return _alive_but(plot) or _say(f"is paused, {by(arrival, plot)}", plot, arrival)
        case Status.STOPPED:
            return _stopped(state, arrival, plot)
        case Status.FAILED:
            return _failed(state, arrival, plot)
        case Status.REMOVED:
            return _removed(arrival, plot)
    return _say(f"is {state.status}", plot, arrival)


def _say(text: str, plot: Plot, *behind: Noted | None) -> Sentence:
    """The last of `behind` is the event that brought it there."""
    events = [noted for noted in behind if noted is not None]
    step = plot.step_behind(events[-1])
    sequences = {noted.sequence for noted in [*events, *([step] if step else [])]}
    last = events[-1]
    return Sentence(text=text, sequences=tuple(sorted(sequences)), at=last.head.time, asked_by=last.head.correlationid)


def _never_made(plot: Plot) -> Sentence | None:
    for noted in reversed(plot.letters):
        if isinstance(noted.fact, DeadLetter) and order_of(noted.fact) == CREATE:
            return _say(f"was never made: {noted.fact.reason.message} ({noted.fact.reason.code})", plot, noted)
    if not plot.letters:
        return None
    return _say("was never made, and got orders all the same", plot, plot.letters[-1])


def _being_made(state: SandboxState, arrival: Noted, plot: Plot, now: datetime.datetime) -> Sentence:
    since = duration((now - arrival.head.time).total_seconds() * 1000)
    if is_recovering(state) and state.recovery is not None:
        words = attempts_in_words(state.recovery.attempt, state.spec)
        reason = because(state.recovery.reason)
        text = f"has been in recovery for {since} on node {state.node} ({words}){reason}"
        return _say(text, plot, plot.death_of_this_life, arrival)
    return _say(f"has been in the making for {since} on node {state.node}, {by(arrival, plot)}", plot, arrival)


def _alive_but(plot: Plot) -> Sentence | None:
    """What is wrong with one that should be alive."""
    assert plot.state is not None
    spec = plot.state.spec
    match plot.death_of_this_life, plot.excess, plot.condition:
        case Noted(fact=HealthDied() as died) as noted, _, _:
            reason = why_not_recovered(died, spec)
            due = f" at {died.due.astimezone():%H:%M:%S}" if died.due is not None else ""
            follows = f"its recovery is asked for{due}" if reason is None else f"its stop is recorded{due}"
            return _say(f"is dead: {cause_of(died, spec)}; {follows}", plot, plot.arrival, noted)
        case _, Noted(fact=HealthLimitExceeded() as excess) as noted, _:
            return _say(f"is about to be stopped: {excess_of(excess)}", plot, plot.arrival, noted)
        case _, _, Noted(fact=HealthUnhealthy() as ill) as noted:
            status = plot.state.status
            return _say(f"is {status}, but not well: {ill.reason}", plot, plot.arrival, noted)
    return None


def _running(state: SandboxState, arrival: Noted, plot: Plot) -> Sentence:
    wrong = _alive_but(plot)
    if wrong is not None:
        return wrong
    well = plot.condition if plot.condition and isinstance(plot.condition.fact, HealthHealthy) else None
    health = "is running and healthy" if well is not None else "is running"
    if isinstance(arrival.fact, sandbox.SandboxRecovered):
        words = attempts_in_words(arrival.fact.attempt, state.spec)
        after = ""
        if arrival.fact.attempt and plot.death is not None and isinstance(plot.death.fact, HealthDied):
            after = f", after {cause_of(plot.death.fact, state.spec)}"
        death = plot.death if after else None
        return _say(f"{health}: it was recovered ({words}){after}", plot, well, death, plot.recovering, arrival)
    verb = {sandbox.SandboxResumed: "resumed", sandbox.SandboxStarted: "started"}.get(type(arrival.fact), "made")
    return _say(f"{health}: it was {verb}, {by(arrival, plot)}", plot, well, arrival)


def _stopped(state: SandboxState, arrival: Noted, plot: Plot) -> Sentence:
    fact = arrival.fact
    reason = because(fact.reason) if isinstance(fact, sandbox.SandboxStopped) else ""
    if not isinstance(fact, sandbox.SandboxStopped) or fact.failure is None:
        return _say(f"is stopped, {by(arrival, plot)}{reason}", plot, arrival)
    match plot.excess, plot.death_of_this_life:
        case Noted(fact=HealthLimitExceeded() as excess) as noted, _ if fact.failure.details.get("limit"):
            return _say(f"is stopped: {excess_of(excess)}", plot, noted, arrival)
        case _, Noted(fact=HealthDied() as died) as noted:
            left = why_not_recovered(died, state.spec)
            why = "" if left is None else f", and was not recovered, because {left}"
            return _say(f"is stopped: {cause_of(died, state.spec)}{why}", plot, noted, arrival)
    return _say(f"is stopped: {fact.failure.message} ({fact.failure.code})", plot, arrival)


def _failed(state: SandboxState, arrival: Noted, plot: Plot) -> Sentence:
    error = state.error
    words = "nobody says why" if error is None else f"{error.message} ({error.code})"
    if not state.created:
        return _say(f"could not be made: {words}", plot, arrival)
    return _say(f"has failed: {words}", plot, plot.death_of_this_life, plot.recovering, arrival)


def _removed(arrival: Noted, plot: Plot) -> Sentence:
    reason = because(arrival.fact.reason) if isinstance(arrival.fact, sandbox.SandboxRemoved) else ""
    return _say(f"is removed, {by(arrival, plot)}{reason}; its record stays", plot, arrival)
