"""Leave for tool calls: by the rules, or by somebody who is asked and may take their time."""

import asyncio

from contracts.agents import Verdict, verdict_for
from contracts.events import agent as facts
from contracts.message import JsonObject
from infra import clock
from services.agent.names import approval_name
from services.agent.pen import Pen
from services.agent.record import Answer, Record, sameness

POLICY = "policy"


class Approving:
    def __init__(self, pen: Pen, record: Record) -> None:
        self._pen = pen
        self._record = record

    async def approve(
        self, key: str, tool: str, arguments: JsonObject, *, call: str | None = None, reason: str = ""
    ) -> Answer:
        """Whether a tool may be used so. The same answer for the same key, also after a crash.

        Asks where a rule says so, and waits for the answer or for the expiry, which is a no. `reason`: the agent's own
        words, for whoever is asked.
        """
        record = self._record
        approval = approval_name(record.run, key)
        if approval in record.answers:
            return record.answers[approval]
        if approval not in record.pending:
            rule = verdict_for(record.started.approvals, tool, arguments)
            if rule.verdict is Verdict.DENY:
                return await self._deny(approval, tool, call, rule.reason or "a rule of this run denies it")
            if rule.verdict is Verdict.AUTO or (tool, sameness(arguments)) in record.remembered:
                return Answer(True, POLICY)
            asked = facts.AgentApprovalRequested(
                run=record.run,
                approval=approval,
                tool=tool,
                input=arguments,
                expires_ms=record.started.approval_timeout_ms,
                call=call,
                reason=rule.reason or reason,
            )
            await self._pen.write(f"asked/{key}", asked)
        return await self._answered(approval, tool, call)

    async def withdraw(self, key: str, reason: str) -> None:
        """The question is no longer asked: whoever waits for the answer gets a no."""
        approval = approval_name(self._record.run, key)
        pending = self._record.pending.get(approval)
        if pending is not None and approval not in self._record.decided:
            self._record.decided[approval] = Answer(False, POLICY, reason)
            await self._settle(approval, self._record.decided[approval], pending.tool, pending.call)

    async def _deny(self, approval: str, tool: str, call: str | None, reason: str) -> Answer:
        told = facts.AgentRejected(
            run=self._record.run, approval=approval, by=POLICY, reason=reason, tool=tool, call=call
        )
        await self._pen.write(f"denied/{approval}", told)
        return Answer(False, POLICY, reason)

    async def _answered(self, approval: str, tool: str, call: str | None) -> Answer:
        record = self._record
        while approval not in record.decided and approval not in record.answers:
            expires = record.pending[approval].expires
            left = None if expires is None else expires - clock.steady()
            if left is not None and left <= 0:
                return await self._settle(approval, Answer(False, POLICY, "nobody answered", expired=True), tool, call)
            try:
                async with asyncio.timeout(left):
                    await record.changed()
            except TimeoutError:
                continue
        if approval in record.answers:
            return record.answers[approval]
        return await self._settle(approval, record.decided[approval], tool, call)

    async def _settle(self, approval: str, answer: Answer, tool: str, call: str | None) -> Answer:
        told: facts.AgentApproved | facts.AgentRejected
        if answer.allowed:
            told = facts.AgentApproved(run=self._record.run, approval=approval, by=answer.by, reason=answer.reason)
        else:
            told = facts.AgentRejected(
                run=self._record.run,
                approval=approval,
                by=answer.by,
                reason=answer.reason,
                expired=answer.expired,
                tool=tool,
                call=call,
            )
        await self._pen.write(f"answered/{approval}", told)
        return self._record.answers[approval]
