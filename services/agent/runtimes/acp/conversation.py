"""A run's conversation with its agent: the program's lines into facts, and what people want into its requests.

Begun anew after a crash, it hears every line again and knows from the record what was said to the program, so that each
request is made once and each question answered once.
"""

import asyncio
import contextlib
import datetime
import signal
from typing import Any

from contracts.errors import AgentFailed
from contracts.events import agent as facts
from infra import clock
from services.agent.lines import Line
from services.agent.process import Process
from services.agent.record import Interrupt, Steer
from services.agent.runtimes.acp import envelope, permissions, sessions, talk
from services.agent.runtimes.acp.beginnings import beginnings
from services.agent.runtimes.acp.envelope import Broken, Id, Stray, Wrong
from services.agent.runtimes.acp.opening import Opening
from services.agent.runtimes.acp.options import Options
from services.agent.runtimes.acp.permissions import Permission
from services.agent.runtimes.acp.runtime import MARK as IN_ENVIRONMENT
from services.agent.runtimes.acp.said import MARK, mark, said
from services.agent.runtimes.acp.sessions import Session
from services.agent.runtimes.acp.speech import Chunk
from services.agent.runtimes.acp.sweeping import sweep
from services.agent.runtimes.acp.talk import Happening, Refused, Settled, Spent, Talk, Turn
from services.agent.runtimes.runtime import Ending
from services.agent.stage import Stage

CANCEL_S = 0.7
"""An agent that has not stopped by then is stopped."""
WITHDRAWN_S = 0.01
MOST_TOKENS = 10**12
LEAVE_S = 1.0
"""An agent whose input is closed may end by itself for so long."""


async def hold(stage: Stage, process: Process, options: Options) -> Ending:
    """To its end. Raises `AgentFailed`, `ProcessLost`, `BudgetSpent`."""
    earlier = await sessions.earlier(stage, process.id)
    return await Conversation(stage, process, options, earlier, await beginnings(stage, process)).hold()


class Conversation:
    def __init__(
        self,
        stage: Stage,
        process: Process,
        options: Options,
        earlier: Session | None,
        began: dict[Id, datetime.datetime],
    ) -> None:
        """`earlier`: the session to go on with. `began`: when the process was asked what it was asked before."""
        self._stage = stage
        self._earlier = earlier
        self._process = process
        self._options = options
        at_once = stage.order.max_budget_usd is not None
        self._talk = Talk(stage.run, process.id, cost_at_once=at_once, earlier=earlier)
        self._said = said(process.inputs)
        for request in self._said.requests.values():
            self._talk.ask(request)
        self._settled: dict[Id, asyncio.Future[Settled]] = {}
        self._requests = 0
        self._prompt: asyncio.Task[Settled] | None = None
        """The last that was begun."""
        self._last_said = max((own for own in self._said.requests if isinstance(own, int)), default=-1)
        self._prompted = asyncio.Event()
        """The turn that goes on now has begun; one of the past, heard again, does not count."""
        self._began = began
        self._asking: dict[int, asyncio.Task[None]] = {}
        """Those who wait for leave, by the number of the agent's request."""
        self._obeying = asyncio.Lock()
        self._cancelled: asyncio.Task[Settled] | None = None
        self._leaving = False
        self._ended = asyncio.Event()
        self._tasks = asyncio.TaskGroup()

    async def hold(self) -> Ending:
        try:
            async with self._tasks:
                others = [self._tasks.create_task(self._listen()), self._tasks.create_task(self._obey())]
                ending = await self._lead()
                await self._leave()
                for task in (*others, *self._asking.values()):
                    task.cancel()
        except BaseExceptionGroup as group:
            raise _first(group) from None
        return ending

    async def _lead(self) -> Ending:
        opening = Opening(
            self._stage, self._process.id, self._options, self._talk, self._said, self._earlier, self.request
        )
        text = await opening.open()
        turns = 0
        while True:
            turn = await self._turn(text)
            async with self._obeying:
                # An interrupt that ended the turn is on record before it is asked what comes next.
                key = self._turn_key(turns)
            steers = await self._stage.steering.next_turn(key)
            if not steers:
                return Ending(result=turn.text, reason="done" if turn.stop == "end_turn" else turn.stop)
            text = "\n\n".join(map(_words, steers))
            turns += 1

    def _turn_key(self, number: int) -> str:
        return f"{self._process.id}/turn/{number}"

    async def _turn(self, text: str) -> Turn:
        """Raises `AgentFailed` where the agent says that it cannot."""
        params = {"sessionId": self._talk.session, "prompt": [{"type": "text", "text": text}]}
        self._prompted.clear()
        self._prompt = self._tasks.create_task(self.request(talk.PROMPT, params))
        settled = await asyncio.shield(self._prompt)
        assert settled.turn is not None
        if settled.error is not None and self._cancelled is not self._prompt:
            raise AgentFailed(f"the agent could not go on: {settled.error}", reason="refused")
        return settled.turn

    async def request(self, method: str, params: dict[str, Any]) -> Settled:
        """Ask the agent, once, and wait for its answer.

        The same call is the same line in every life of this service: nothing in it may be of this one, such as a time.
        """
        own = self._requests
        self._requests += 1
        settled = self._settled.setdefault(own, asyncio.get_running_loop().create_future())
        if own not in self._said.requests:
            request = envelope.request(own, method, params)
            self._talk.ask(request)
            self._began.setdefault(own, clock.now())
            await self._say(envelope.encode(request))
        if method == talk.PROMPT and own >= self._last_said:
            self._prompted.set()
        try:
            return await settled
        finally:
            del self._settled[own]

    async def _say(self, line: bytes) -> None:
        """Raises what became of the program, where it has ended."""
        try:
            await self._process.say(line)
        except AgentFailed as failed:
            # Whoever listens to it may know more, and then says so first.
            await self._ended.wait()
            raise self._stage.fell_silent(self._process, "before it was told all") from failed

    async def _listen(self) -> None:
        async for line in self._process.lines():
            try:
                happened = self._talk.hear(line.data) if line.data.strip() else []
            except Stray as stray:
                await self._stage.garbage(self._process, line, str(stray))
            except Broken as broken:
                raise AgentFailed(f"the agent breaks the protocol: {broken}", reason="protocol") from broken
            else:
                await self._tell(line, happened)
        self._ended.set()
        if not self._leaving and (self._talk.owes or not (self._has_left() or self._is_closing())):
            raise self._stage.fell_silent(self._process, "before its time")

    def _has_left(self) -> bool:
        """Between two turns, by itself, and in good order: nothing is lost unless there is more to say to it."""
        return self._process.result is not None and self._process.result.exit_code == 0

    def _is_closing(self) -> bool:
        """Whether an earlier life has come so far, which then may have ended the program."""
        prompts = sum(request.method == talk.PROMPT for request in self._said.requests.values())
        return self._stage.is_told(f"closing/{self._turn_key(prompts - 1)}")

    async def _tell(self, line: Line, happened: list[Happening]) -> None:
        for number, happening in enumerate(happened):
            key = f"{self._process.id}@{line.offset}.{number}"
            match happening:
                case Chunk(kind=kind, message=message, text=text):
                    await self._stage.partials.add(kind, message, text)
                case Permission():
                    self._ask(happening)
                case Refused():
                    self._tasks.create_task(self._refuse(happening))
                case Spent():
                    await self._keep_cost(key)
                    await self._stage.spend(key, facts.AgentMetrics(run=self._stage.run, cost_usd=happening.cost_usd))
                case Settled():
                    await self._settle(key, happening)
                case facts.AgentMessage() | facts.AgentThinking():
                    kind = "message" if isinstance(happening, facts.AgentMessage) else "thinking"
                    await self._stage.partials.whole(kind, happening.message)
                    await self._stage.tell(key, happening)
                case _:
                    await self._stage.tell(key, happening)

    async def _settle(self, key: str, settled: Settled) -> None:
        if settled.turn is not None:
            await self._withdraw(permissions.OVER)
            if settled.turn.cost_usd:
                await self._keep_cost(key)
            await self._stage.spend(key, self._metrics(settled.turn, self._age(settled.request)))
        self._settled.setdefault(settled.request, asyncio.get_running_loop().create_future()).set_result(settled)

    async def _keep_cost(self, key: str) -> None:
        if self._talk.session is not None:
            session = Session(name=self._talk.session, cost_usd=self._talk.cost_usd)
            await sessions.keep(self._stage, f"{key}/session", self._process.id, session)

    def _age(self, prompt: Id) -> float:
        """Seconds since it was given."""
        now = clock.now()
        return (now - self._began.get(prompt, now)).total_seconds()

    def _metrics(self, turn: Turn, seconds: float) -> facts.AgentMetrics:
        used = turn.usage
        return facts.AgentMetrics(
            run=self._stage.run,
            input_tokens=_tokens(used.input_tokens) if used else 0,
            output_tokens=_tokens(used.output_tokens) + _tokens(used.thought_tokens) if used else 0,
            cache_read_tokens=_tokens(used.cached_read_tokens) if used else 0,
            cache_write_tokens=_tokens(used.cached_write_tokens) if used else 0,
            cost_usd=turn.cost_usd,
            turns=1,
            tool_calls=turn.tool_calls,
            duration_ms=round(seconds * 1000, 3),
        )

    def _ask(self, permission: Permission) -> None:
        if permission.number in self._said.answered:
            self._talk.answer(permission.request)
            return
        self._asking[permission.number] = self._tasks.create_task(self._permit(permission))

    async def _permit(self, permission: Permission) -> None:
        key = self._permission_key(permission.number)
        leave = await self._stage.approve(key, permission.tool, permission.input, call=permission.call)
        await self._answer(permission, permissions.answer(permission, leave), leave.reason)

    def _permission_key(self, number: int) -> str:
        """By its number and not by the call's name: an agent that uses a name twice is asked about twice."""
        return f"{self._process.id}/permission/{number}"

    async def _answer(self, permission: Permission, answer: dict[str, Any], reason: str) -> None:
        self._asking.pop(permission.number, None)
        # The protocol has no place for a reason but the one that it leaves to everybody.
        marked = {**answer, "_meta": {**mark(permission.number), "reason": reason}}
        await self._say(envelope.answer(permission.request, marked))
        self._talk.answer(permission.request)

    async def _refuse(self, refused: Refused) -> None:
        if refused.number not in self._said.answered:
            wrong = Wrong(refused.code, refused.message, mark(refused.number))
            await self._say(envelope.refusal(refused.request, wrong))
        self._talk.answer(refused.request)

    async def _obey(self) -> None:
        while True:
            interrupt = await self._stage.steering.next_interrupt()
            await self._prompted.wait()
            async with self._obeying:
                stopped = await self._stop(interrupt)
                await self._stage.steering.acknowledge(interrupt)
            if not stopped:
                raise AgentFailed("the agent did not stop when it was interrupted, and was killed", reason="hang")

    async def _stop(self, interrupt: Interrupt) -> bool:
        """Whether the agent did so itself."""
        prompt = self._prompt
        if prompt is None or prompt.done() or not self._talk.prompting:
            return True
        self._cancelled = prompt
        cancel = {"sessionId": self._talk.session, "_meta": {MARK: interrupt.order}}
        await self._say(envelope.encode(envelope.notice(talk.CANCEL, cancel)))
        await self._withdraw(permissions.INTERRUPTED)
        try:
            async with self._stage.within(CANCEL_S):
                await asyncio.shield(prompt)
        except TimeoutError:
            await self._kill()
            return False
        key = f"{self._process.id}/swept/{interrupt.order}"
        # The prompt is the last request that was made.
        await sweep(self._stage, key, f"{IN_ENVIRONMENT}={self._stage.run}", self._age(self._requests - 1))
        return True

    async def _withdraw(self, reason: str) -> None:
        """What leave was asked for is not to happen any more."""
        while self._asking:
            # One may be on its way to the record still.
            for number in tuple(self._asking):
                await self._stage.withdraw(self._permission_key(number), reason)
            await asyncio.sleep(WITHDRAWN_S)

    async def _kill(self) -> None:
        self._leaving = True
        await self._process.signal(signal.SIGKILL)
        await self._ended.wait()

    async def _leave(self) -> None:
        self._leaving = True
        await self._process.end_input()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LEAVE_S):
                await self._ended.wait()


def _tokens(said: int | None) -> int:
    return min(max(said or 0, 0), MOST_TOKENS)


def _words(steer: Steer) -> str:
    return steer.text if steer.kind == "message" else steer.shown


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """What went wrong first. The others are its consequences."""
    first = group.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first
