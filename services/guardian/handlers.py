"""Carries decisions out: what is done, then what is told of it."""

import logging

from msgspec.structs import replace

from contracts import codec, subjects
from contracts.commands.agent import GuideAgent, InterruptAgent, PauseAgent
from contracts.commands.sandbox import StopSandbox
from contracts.errors import ClocheError
from contracts.events.guardian import GuardianEscalated, GuardianIntervention, GuardianObserved
from contracts.guardian import Mode, Step
from contracts.ids import is_token
from contracts.message import Command, Fact, Order
from contracts.registry import command_tag
from contracts.streams import COMMANDS_STREAM
from infra import clock
from infra.bus.connection import Bus
from infra.bus.publisher import append
from infra.journal import Journal
from infra.observing import catalogue
from services.guardian.calls import fingerprint
from services.guardian.decide import SHADOW, Decision
from services.guardian.moments import moment
from services.guardian.place import Place, addressee

logger = logging.getLogger(__name__)

REASON_CHARACTERS = 1000
ADVICE = {
    "repeated_call": "Doing the same again will not change it: try something else, or say what stands in the way.",
    "alternating_loop": "You are going in circles: step back, say what you have learnt, and try another way.",
    "error_storm": "Nearly everything fails: find out why before going on.",
    "no_progress": "Nothing has come for a long time: go on, or say what you are waiting for.",
    "budget": "Bring the work to an end that can be used.",
    "dangerous_command": "That is not allowed here: find a way that harms nothing.",
    "outside_paths": "Stay within the paths of the task.",
}


def identity(sandbox: str, decision: Decision) -> str:
    """The same whenever the same is decided about the same events."""
    finding = decision.finding
    return f"{sandbox}.{finding.rule}.{finding.evidence[-1]}.{decision.at_ms}.{fingerprint(finding.key)}"


def order_id(name: str) -> str:
    return f"g-{fingerprint(name)}"


class Teller:
    def __init__(self, bus: Bus, journal: Journal, mode: Mode, told: set[str]) -> None:
        """`told`: ids of what an earlier life has told already."""
        self._bus = bus
        self._journal = journal
        self._mode = mode
        self._told = told

    def is_mine(self, place: Place) -> bool:
        """Each node's guardian speaks for the sandboxes of its node."""
        return place.node in (None, self._journal.node)

    async def tell(self, sandbox: str, decision: Decision, place: Place) -> None:
        """The command before the event: after a crash between the two both are repeated, under the same ids."""
        name = identity(sandbox, decision)
        if not self.is_mine(place) or name in self._told:
            self._told.discard(name)
            return
        if not decision.held and decision.step is not Step.OBSERVE and self._mode is Mode.SHADOW:
            decision = replace(decision, held=SHADOW)
        try:
            command = await self._order(sandbox, decision, place, order_id(name)) if _acts(decision) else None
            written = self._journal.write(sandbox, _fact(decision, command), id=name, command=command)
            await self._journal.append(written)
            catalogue.findings.add(decision.finding.rule, decision.step.value)
        except ClocheError as error:
            logger.error("%s: %s cannot be told: %s", sandbox, decision.finding.rule, error.message)  # noqa: TRY400

    async def tell_late(self, sandbox: str, decision: Decision, place: Place) -> None:
        """What an earlier life may have decided and acted on too, and died before it could say so.

        Raises `Unavailable`: then nothing is told.
        """
        order = order_id(identity(sandbox, decision))
        if decision.step is Step.STOP and await self._journal.was_told(sandbox, "sandbox.stopped", order):
            decision = replace(decision, held="")
        await self.tell(sandbox, decision, place)

    async def _order(self, sandbox: str, decision: Decision, place: Place, name: str) -> str:
        order = order_for(decision, addressee(place, decision.finding.run))
        tag = command_tag(order)
        command = Command(
            id=name,
            source=f"guardian/{self._journal.node}",
            type=tag,
            time=clock.now(),
            sandboxid=sandbox,
            data=order,
        )
        subject = subjects.command(place.node or self._journal.node, sandbox, *tag.split("."))
        await append(self._bus, subject, codec.encode(command), command.id, stream=COMMANDS_STREAM)
        return command.id


def order_for(decision: Decision, run: str | None) -> Order:
    finding = decision.finding
    reason = f"guardian: {finding.rule}: {finding.text}"[:REASON_CHARACTERS]
    match decision.step:
        case Step.GUIDANCE:
            return GuideAgent(text=f"[GUARDIAN] {finding.text}. {ADVICE.get(finding.rule, '')}".rstrip(), run=run)
        case Step.INTERRUPT:
            return InterruptAgent(reason=reason, run=run)
        case Step.PAUSE:
            return PauseAgent(reason=reason, run=run)
    return StopSandbox(reason=reason)


def _acts(decision: Decision) -> bool:
    return decision.step is not Step.OBSERVE and not decision.held


def _fact(decision: Decision, command: str | None) -> Fact:
    finding, at = decision.finding, moment(decision.at_ms)
    run = finding.run if finding.run is not None and is_token(finding.run) else None
    if not _acts(decision):
        return GuardianObserved(
            rule=finding.rule,
            finding=finding.text,
            evidence=finding.evidence,
            run=run,
            key=finding.key,
            step=decision.step,
            held=decision.held,
            count=decision.count,
            at=at,
        )
    if decision.escalated:
        return GuardianEscalated(
            rule=finding.rule,
            step=decision.step,
            reason=finding.text,
            evidence=finding.evidence,
            run=run,
            key=finding.key,
            count=decision.count,
            at=at,
            command=command,
        )
    return GuardianIntervention(
        rule=finding.rule,
        step=decision.step,
        text=finding.text,
        evidence=finding.evidence,
        run=run,
        key=finding.key,
        count=decision.count,
        at=at,
        command=command,
    )
