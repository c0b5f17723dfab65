"""What an event of an agent, or of somebody who talks to one, says in a few words. Not escaped yet."""

import json

from contracts.events import agent
from contracts.message import Fact, JsonObject

TOO_DEEP = "(nested too deep to be shown)"


def of_agent(fact: Fact) -> str | None:
    match fact:
        case agent.AgentStarted():
            return f"{fact.run}  {' '.join(filter(None, (fact.runtime, fact.model)))}: {fact.prompt}"
        case agent.AgentThinking() | agent.AgentMessage():
            return f"{fact.run}  {fact.text}"
        case agent.AgentToolUse():
            return f"{fact.run}  {fact.tool} {plain(fact.input)}"
        case agent.AgentToolResult():
            return f"{fact.run}  {'done' if fact.ok else 'failed'}: {fact.output}"
        case agent.AgentMetrics():
            tokens = fact.input_tokens + fact.output_tokens
            return f"{fact.run}  ${fact.cost_usd:.4f}, {tokens} tokens, {fact.turns} turns"
        case agent.AgentCompleted():
            return f"{fact.run}  {fact.reason}: {fact.result}"
        case agent.AgentError(final=False):
            return f"{fact.run}  goes on after {fact.failure.code}: {fact.failure.message}"
        case agent.AgentError():
            return f"{fact.run}  {fact.failure.code}: {fact.failure.message}"
        case agent.AgentInterrupted() | agent.UserInterrupt():
            return f"{fact.run}  {fact.reason}"
        case agent.UserMessage() | agent.UserGuidance():
            return f"{fact.run}  {fact.text}"
    return _of_standing(fact) or _of_approval(fact)


def _of_standing(fact: Fact) -> str | None:
    match fact:
        case agent.AgentAttached():
            return f"{fact.run}  attempt {fact.attempt}: {fact.process}{f'  {fact.reason}' if fact.reason else ''}"
        case agent.AgentPaused() | agent.UserPause() | agent.UserStop() | agent.AgentWaiting():
            return f"{fact.run}  {fact.reason}".rstrip()
        case agent.AgentResumed() | agent.UserResume():
            return fact.run
        case agent.AgentClosing():
            return f"{fact.run}  its last turn is over"
        case agent.AgentDelivered():
            where = {"prompt": "begins a turn", "tool_call": "before the next tool call"}.get(fact.where, "in the turn")
            return f"{fact.run}  the {fact.kind} [{fact.sequence}] {where}"
        case agent.AgentTranscript():
            return f"{fact.run}  {fact.path}  {'' if fact.replaces else '+'}{fact.size} bytes"
    return None


def _of_approval(fact: Fact) -> str | None:
    match fact:
        case agent.AgentApprovalRequested():
            return f"{fact.run}  {fact.approval}  may it {fact.tool} {plain(fact.input)}"
        case agent.AgentRejected(expired=True):
            return f"{fact.run}  {fact.approval}  expired"
        case agent.AgentApproved() | agent.AgentRejected():
            return f"{fact.run}  {fact.approval}  by {fact.by}{f': {fact.reason}' if fact.reason else ''}"
        case agent.UserApprove() | agent.UserReject():
            return f"{fact.run}  {fact.approval}{f'  {fact.reason}' if fact.reason else ''}"
    return None


def plain(arguments: JsonObject) -> str:
    """The one argument of a call that has one, else all of them as they stand."""
    if len(arguments) == 1 and isinstance(value := next(iter(arguments.values())), str):
        return value
    return as_json(arguments)


def as_json(value: object) -> str:
    # Not by msgspec: JSON has numbers that it reads and cannot write again.
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return TOO_DEEP
