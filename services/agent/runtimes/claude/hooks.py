"""What the CLI asks before it uses a tool: it is told what waits, and what the rules say of the call."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from contracts.agents import Verdict, verdict_for
from services.agent.process import Process
from services.agent.record import Answer
from services.agent.runtimes.claude.given import Given, hook_key, shown
from services.agent.runtimes.claude.questions import Question, named
from services.agent.stage import Stage

if TYPE_CHECKING:
    from claude_agent_sdk import ClaudeAgentOptions, PermissionResultAllow, PermissionResultDeny

HOOK_S = 86_400.0
"""For which the CLI waits for a hook's answer: the service may be away, or the bus."""
NOBODY = "nobody has allowed it"


class Hooks:
    def __init__(self, stage: Stage, process: Process, given: Given) -> None:
        self._stage = stage
        self._given = given
        self._process = process
        self._errors: asyncio.Queue[BaseException] = asyncio.Queue()
        self._taking: set[asyncio.Task[str]] = set()

    def into(self, options: "ClaudeAgentOptions") -> "ClaudeAgentOptions":
        from dataclasses import replace

        from claude_agent_sdk import HookMatcher

        before = HookMatcher(matcher=None, hooks=[self._before_tool], timeout=HOOK_S, on_failure="block")
        return replace(options, hooks={"PreToolUse": [before]}, can_use_tool=self._may_use)

    async def fail(self) -> None:
        """Raises what keeps a question from being answered at all; does not return."""
        raise await self._errors.get()

    async def settled(self) -> None:
        """What was being delivered has been given, also where the CLI asks no more."""
        await asyncio.gather(*self._taking, return_exceptions=True)

    async def aclose(self) -> None:
        for taking in self._taking:
            taking.cancel()
        await self.settled()

    async def _before_tool(self, given: Any, name: str | None, _context: Any) -> Any:
        return await self._or_never(lambda: self._answer_hook(_object(given), named(name)))

    async def _answer_hook(self, asked: dict[str, Any], question: Question) -> dict[str, Any]:
        tool, arguments = _word(asked.get("tool_name")), _object(asked.get("tool_input"))
        await self._stage.steering.gate()
        output: dict[str, Any] = {"hookEventName": "PreToolUse"}
        # A subagent would keep for itself what it is told.
        if not asked.get("agent_id") and (words := await self._words(question)):
            output["additionalContext"] = words
        match verdict_for(self._stage.order.approvals, tool, arguments).verdict:
            case Verdict.AUTO:
                output["permissionDecision"] = "allow"
            case Verdict.ASK:
                # The CLI then asks by `can_use_tool`, and waits for that without an end.
                output["permissionDecision"] = "ask"
            case Verdict.DENY:
                answer = await self._approve(tool, arguments, question, "")
                output |= {"permissionDecision": "deny", "permissionDecisionReason": answer.reason or NOBODY}
        return {"hookSpecificOutput": output}

    async def _words(self, question: Question) -> str:
        """Whoever is cancelled meanwhile, by an interrupt say: what was delivered is given."""
        taking = asyncio.create_task(self._take(question))
        self._taking.add(taking)
        taking.add_done_callback(self._taken)
        return await asyncio.shield(taking)

    async def _take(self, question: Question) -> str:
        key = hook_key(self._process.id, question.offset)
        said = await self._stage.steering.take(key, "tool_call", question.call or None)
        if said:
            self._given.give(question, shown(said))
        return shown(said)

    def _taken(self, taking: "asyncio.Task[str]") -> None:
        self._taking.discard(taking)
        if not taking.cancelled() and (error := taking.exception()) is not None:
            self._errors.put_nowait(error)

    async def _may_use(
        self, tool: str, arguments: dict[str, Any], context: Any
    ) -> "PermissionResultAllow | PermissionResultDeny":
        from claude_agent_sdk import PermissionResultAllow, PermissionResultDeny

        name, reason = getattr(context, "tool_use_id", None), _word(getattr(context, "decision_reason", None))
        given = _object(arguments)
        answer: Answer = await self._or_never(lambda: self._approve(_word(tool), given, named(name), reason))
        if answer.allowed:
            return PermissionResultAllow()
        return PermissionResultDeny(message=answer.reason or NOBODY)

    async def withdraw(self, question: Question) -> None:
        """The CLI asks that no more."""
        await self._stage.withdraw(self._key(question), "the agent has let go of it")

    def _key(self, question: Question) -> str:
        return f"{self._process.id}@{question.offset}.leave"

    async def _approve(self, tool: str, arguments: dict[str, Any], question: Question, reason: str) -> Answer:
        key, call = self._key(question), question.call or None
        return await self._stage.approve(key, tool, arguments, call=call, reason=reason)

    async def _or_never(self, work: Callable[[], Awaitable[Any]]) -> Any:
        """The SDK would turn an error of ours into an answer; there is none then, and the run ends by the error."""
        try:
            return await work()
        except Exception as error:  # noqa: BLE001 - raised by whoever waits for it
            self._errors.put_nowait(error)
            await asyncio.Event().wait()


def _object(found: object) -> dict[str, Any]:
    return found if isinstance(found, dict) else {}


def _word(found: object) -> str:
    return found if isinstance(found, str) else ""
