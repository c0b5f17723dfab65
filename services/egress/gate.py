"""Decides on each request of one sandbox: on the name, if need be by asking people, then on every address."""

import asyncio
import datetime
import logging
import time
from typing import NamedTuple

from contracts.events.network import NetworkAllowed, NetworkDenied
from contracts.hostnames import address_of
from contracts.state import SandboxState
from infra import clock
from infra.proxy.port import Refused, Wanted
from services.egress.decide import Policy, Ruling, Verdict
from services.egress.passage import LetThrough
from services.egress.paths import Paths
from services.egress.questions import MOST_PENDING, Questions
from services.egress.reach import Forbidden, Reach, Unresolved
from services.egress.record import Record

logger = logging.getLogger(__name__)

ROOM_TIMEOUT_S = 30.0
HOST_CHARACTERS = 255
METHOD_CHARACTERS = 32
REASON_CHARACTERS = 500
RAW_CHARACTERS = 200
CHANGED = "the policy has changed"
UNRECORDED = "what leaves cannot be recorded now, so nothing may"


class _Until(NamedTuple):
    approval: str
    left_s: float


class SandboxGate:
    """`infra.proxy.port.Gate`. What it lets through is in the ledger before it returns."""

    def __init__(
        self, state: SandboxState, *, reach: Reach, record: Record, questions: Questions, record_paths: bool = True
    ) -> None:
        self._sandbox = state.sandbox
        self._known = state.lifecycle_sequence
        self._reach = reach
        self._record = record
        self._questions = questions
        self._paths = Paths(time.monotonic()) if record_paths else None
        self._policy = policy_of(state)
        self._changed = asyncio.Event()
        self._through: set[LetThrough] = set()

    def change(self, state: SandboxState) -> None:
        """Holds for new requests at once, and for those that wait; what is no longer allowed is cut.

        A state that is older than what is known changes nothing.
        """
        if state.lifecycle_sequence <= self._known:
            return
        self._known = state.lifecycle_sequence
        self._policy = policy_of(state)
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
        self.check_again()

    def check_again(self) -> None:
        for passage in list(self._through):
            if not self._stands(passage.wanted, passage.approval):
                passage.cut(CHANGED)

    async def ask(self, wanted: Wanted) -> LetThrough:
        if not self._record.has_room and not await self._record.wait_for_room(ROOM_TIMEOUT_S):
            raise self._deny(wanted, UNRECORDED, status=503)
        while True:
            approval = await self._permit(wanted)
            addresses = await self._find(wanted)
            # While its name was looked up, somebody may have thought better of it.
            if self._stands(wanted, approval):
                return self._let_through(wanted, addresses, approval)

    def refused(self, wanted: Wanted | None, reason: str, raw: str = "") -> None:
        if wanted is not None:
            self._record.deny(_denial(wanted, reason))
            return
        told = f"{reason}: {raw[:RAW_CHARACTERS]}" if raw else reason
        self._record.deny(NetworkDenied(host="", port=0, method="", reason=told), kind=reason)

    async def _permit(self, wanted: Wanted) -> str | None:
        """Returns the approval that it rests on; None where the policy is enough. Raises `Refused`."""
        asked: str | None = None
        while True:
            changes = (self._changed, self._questions.moved())
            verdict = self._policy.judge(wanted.host, wanted.port, wanted.secret)
            if verdict.ruling is Ruling.PASS:
                return None
            if verdict.ruling is Ruling.DENY:
                raise self._deny(wanted, verdict.reason, self._advice(wanted, verdict))
            await self._questions.load()
            answer = self._questions.approvals.answer_for(wanted.host, wanted.port, clock.now())
            if answer is not None and answer.allowed:
                return answer.approval
            if answer is not None:
                raise self._deny(wanted, "somebody rejected it", self._advice(wanted, verdict))
            until = await self._wait(wanted, asked, verdict)
            asked = until.approval
            await _either(changes, until.left_s)

    async def _wait(self, wanted: Wanted, asked: str | None, verdict: Verdict) -> _Until:
        """Has the question asked that this request waits for. Raises `Refused` once it waits no longer."""
        questions = self._questions
        if asked is not None:
            pending = questions.approvals.asked(asked)
            left_s = 0.0 if pending is None else questions.left_s(pending)
            if left_s <= 0:
                raise self._deny(wanted, "nobody approved it in time", self._advice(wanted, verdict))
            return _Until(asked, left_s)
        # No answer could let it through, so nobody is to be asked. A name is not looked up before it is allowed.
        if address_of(wanted.host) is not None:
            self._judge_known(wanted)
        timeout = datetime.timedelta(milliseconds=self._policy.ask_timeout_ms)
        pending = await questions.ask(wanted.host, wanted.port, wanted.method, timeout)
        if pending is None:
            raise self._deny(wanted, f"{MOST_PENDING} questions wait for an answer already")
        return _Until(pending.approval, questions.left_s(pending))

    async def _find(self, wanted: Wanted) -> tuple[str, ...]:
        known = self._judge_known(wanted)
        if known is not None:
            return known
        try:
            return await self._reach.addresses(wanted.host, asker=self._sandbox)
        except Forbidden as error:
            raise self._deny_address(wanted, error) from error
        except Unresolved as error:
            self._record.end(None, self._request(wanted, error=str(error)))
            raise Refused(str(error), 502) from error

    def _judge_known(self, wanted: Wanted) -> tuple[str, ...] | None:
        try:
            return self._reach.known(wanted.host)
        except Forbidden as error:
            raise self._deny_address(wanted, error) from error

    def _let_through(self, wanted: Wanted, addresses: tuple[str, ...], approval: str | None) -> LetThrough:
        request = self._request(wanted)
        try:
            number = self._record.begin(request)
        except OSError as error:
            logger.warning("%s: the ledger of requests: %s", self._sandbox, error)
            raise self._deny(wanted, UNRECORDED, status=503) from error
        passage = LetThrough(self._record, wanted, addresses, request, number, approval, self._through.discard)
        self._through.add(passage)
        return passage

    def _request(self, wanted: Wanted, error: str | None = None) -> NetworkAllowed:
        return NetworkAllowed(
            host=wanted.host,
            port=wanted.port,
            method=wanted.method[:METHOD_CHARACTERS],
            path=self._paths.told(wanted.path, time.monotonic()) if self._paths and wanted.path is not None else None,
            via=wanted.via,
            secret=wanted.secret,
            began_at=clock.now(),
            error=error,
        )

    def _stands(self, wanted: Wanted, approval: str | None) -> bool:
        """Whether what it was let through by is still so."""
        if self._policy.judge(wanted.host, wanted.port, wanted.secret).ruling is Ruling.PASS:
            return True
        if approval is None or not self._policy.asks:
            return False
        # That a permission runs out ends nothing that it began; that somebody says no does, to whichever question.
        answer = self._questions.approvals.answer_for(wanted.host, wanted.port, clock.now())
        return answer is None or answer.allowed

    def _deny(self, wanted: Wanted, reason: str, advice: str = "", status: int = 403) -> Refused:
        self._record.deny(_denial(wanted, reason))
        return Refused(f"{reason}{advice}", status)

    def _deny_address(self, wanted: Wanted, error: Forbidden) -> Refused:
        self._record.deny(_denial(wanted, error.reason, error.address))
        return Refused(error.reason)

    def _advice(self, wanted: Wanted, verdict: Verdict) -> str:
        if wanted.secret is not None or not self._policy.is_open:
            return ""
        port = f" --port {wanted.port}" if not self._policy.allows_port(wanted.port) else ""
        host = "" if self._policy.allows_host(wanted.host) else f" --allow {wanted.host}"
        said = verdict.reason if verdict.ruling is Ruling.ASK else ""
        return f"{f' ({said})' if said else ''}; from outside: cloche net {self._sandbox}{host}{port}"


def policy_of(state: SandboxState) -> Policy:
    return Policy(state.spec.network, state.spec.secrets)


def _denial(wanted: Wanted, reason: str, address: str | None = None) -> NetworkDenied:
    return NetworkDenied(
        host=wanted.host[:HOST_CHARACTERS],
        port=wanted.port,
        method=wanted.method[:METHOD_CHARACTERS],
        reason=reason[:REASON_CHARACTERS],
        address=address,
        via=wanted.via,
    )


async def _either(events: tuple[asyncio.Event, ...], left_s: float) -> None:
    """Returns when one of them is set, or it is time."""
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, timeout=max(left_s, 0), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
