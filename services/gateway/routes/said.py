"""What people say over HTTP, as orders on the bus."""

from typing import Any, NamedTuple, assert_never

from contracts import codec, subjects
from contracts.commands import agent, network
from contracts.http import events as said
from contracts.message import Order
from services.gateway.routes.bodies import StrictBody


class SpokenBody(StrictBody):
    """What does not say its `type` is a message."""

    def read(self, body: bytes) -> Any:
        kind: Any = said.Said if "type" in codec.decode(body, dict) else said.Message
        return codec.decode(body, kind)


class Obeyed(NamedTuple):
    order: Order
    heard_on: list[str]
    """Where the event is that comes of it."""


def obeyed_by(words: said.Said | said.Message, sandbox: str) -> Obeyed:
    """The order for whoever has to hear it."""
    match words:
        case said.ApproveNetwork():
            order = network.ApproveNetwork(approval=words.approval, reason=words.reason, remember=words.remember)
            return Obeyed(order, [subjects.event(sandbox, "network.approved")])
        case said.RejectNetwork():
            refusal = network.RejectNetwork(approval=words.approval, reason=words.reason, remember=words.remember)
            return Obeyed(refusal, [subjects.event(sandbox, "network.rejected")])
    return Obeyed(_to_agent(words), subjects.events_of(sandbox, family="user"))


def _to_agent(words: said.Said | said.Message) -> Order:
    match words:
        case said.Guidance() | said.GuardianIntervention():
            return agent.GuideAgent(text=words.text, run=words.run)
        case said.Message():
            return agent.MessageAgent(text=words.text, run=words.run)
        case said.Interrupt():
            return agent.InterruptAgent(reason=words.reason, run=words.run)
        case said.Pause():
            return agent.PauseAgent(reason=words.reason, run=words.run)
        case said.Resume():
            return agent.ResumeAgent(run=words.run)
        case said.StopRun():
            return agent.StopAgent(reason=words.reason, run=words.run)
        case said.Approve():
            return agent.ApproveAgent(approval=words.approval, reason=words.reason, remember=words.remember)
        case said.Reject():
            return agent.RejectAgent(approval=words.approval, reason=words.reason)
        case said.ApproveNetwork() | said.RejectNetwork():
            raise AssertionError("answers about the network are egress's")
        case _:
            assert_never(words)
