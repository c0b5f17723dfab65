"""A run's conversation: the program's lines into facts, and what people want into its orders.

Begun anew after a crash, it hears every line again and knows from the record what the program was told, so that each
order is given once and each question answered once.
"""

import asyncio
import contextlib
from collections.abc import Coroutine

from contracts.agents import Verdict
from contracts.errors import AgentFailed
from contracts.events import agent as facts
from contracts.message import JsonObject
from services.agent.lines import Line
from services.agent.process import Process
from services.agent.record import Interrupt, Steer
from services.agent.runtimes.openhands import events, orders
from services.agent.runtimes.openhands.memory import Memory
from services.agent.runtimes.openhands.options import Options, model_of
from services.agent.runtimes.runtime import Ending
from services.agent.stage import Stage

LEAVE_S = 5.0
"""A program that was told to stop may take so long."""
OBEY_S = 10.0
"""One that has not obeyed an interrupt by then hangs."""
MOST_ASKED = 200
"""Tool calls that wait for leave at a time: more is a flood."""
FAILED = {"error": "failed", "stuck": "stuck"}


class Conversation:
    def __init__(self, stage: Stage, process: Process, options: Options, memory: Memory) -> None:
        self._stage = stage
        self._process = process
        self._options = options
        self._memory = memory
        self._model = model_of(stage.order.model)
        self._said = orders.said(process.inputs)
        self._count = 0
        self._greeted = asyncio.Event()
        self._ready = asyncio.Event()
        self._ended = asyncio.Event()
        self._result = ""
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._asking: dict[str, asyncio.Task[None]] = {}
        """One for each tool call of this turn that waits for leave, by its key."""
        self._turns = 0
        """So many are over."""
        self._interrupts: dict[str, asyncio.Future[Interrupt]] = {}
        self._acknowledged: set[str] = set()
        self._tasks = asyncio.TaskGroup()
        self._working: set[asyncio.Task[None]] = set()

    async def hold(self) -> Ending:
        try:
            async with self._tasks:
                self._begin(self._listen())
                self._begin(self._obey())
                await self._open()
                await self._over
                await self._leave()
                for task in self._working:
                    task.cancel()
        except BaseExceptionGroup as group:
            raise _first(group) from None
        return Ending(result=self._result)

    def _begin(self, work: Coroutine[None, None, None]) -> "asyncio.Task[None]":
        task = self._tasks.create_task(work)
        self._working.add(task)
        task.add_done_callback(self._working.discard)
        return task

    async def _open(self) -> None:
        try:
            async with self._stage.within(self._stage.settings.handshake_s):
                await self._greeted.wait()
        except TimeoutError:
            raise AgentFailed("the agent's program does not answer", reason="hang") from None
        if not self._said.started:
            for line in self._memory.restoring():
                await self._process.say(line)
            await self._process.say(self._start())
        await self._ready.wait()
        if 1 not in self._said.turns:
            await self._begin_turn(1, self._memory.first_words())

    def _start(self) -> bytes:
        asks = any(rule.verdict is not Verdict.AUTO for rule in self._stage.order.approvals)
        llm: JsonObject = {"stream": self._options.stream, **self._options.llm, "model": self._model}
        steps = self._options.max_steps
        return orders.start(self._memory.session, self._stage.workspace, llm=llm, max_steps=steps, confirm=asks)

    async def _listen(self) -> None:
        async for line in self._process.lines():
            try:
                event = events.read(line.data)
                if event.n != self._count + 1:
                    raise ValueError(f"its number is not {self._count + 1}")
            except ValueError as error:
                await self._stage.garbage(self._process, line, str(error))
                continue
            self._count += 1
            await self._take(event, line)
        self._ended.set()
        if not self._over.done():
            raise self._stage.fell_silent(self._process, "before its time")

    async def _take(self, event: events.Any, line: Line) -> None:
        key = f"{self._process.id}@{line.offset}"
        match event:
            case events.Hello():
                self._greeted.set()
            case events.Ready():
                self._ready.set()
            case events.Transcript():
                await self._keep(key, event)
            case events.Between():
                await self._answer(key, event)
            case events.ApprovalNeeded():
                self._ask(key, event)
            case events.Interrupted():
                await self._acknowledge(event)
            case events.Turn():
                await self._end_turn(key, event)
            case events.Usage():
                await self._stage.spend(key, self._metrics(event))
            case events.Error():
                raise AgentFailed(event.detail, reason=event.code[:100], last_words=self._process.last_words)
            case _:
                await self._tell(key, event)

    async def _tell(self, key: str, event: events.Any) -> None:
        stage, run = self._stage, self._stage.run
        match event:
            case events.Part(of=kind):
                await stage.partials.add(kind, self._name(event.message), event.text)
            case events.Message():
                name = self._name(event.message)
                await stage.partials.whole("message", name)
                await stage.tell(key, facts.AgentMessage(run=run, text=event.text, message=name))
            case events.Thinking():
                name = self._name(event.message)
                await stage.partials.whole("thinking", name)
                await stage.tell(key, facts.AgentThinking(run=run, text=event.text, message=name))
            case events.ToolUse():
                use = facts.AgentToolUse(run=run, call=event.call, tool=event.tool, input=event.input)
                await stage.tell(key, use)
            case events.ToolResult():
                await stage.tell(key, self._tool_result(event))

    def _name(self, message: str) -> str:
        """Programs of later attempts count their messages anew."""
        return f"{self._stage.attempt}.{message[:100]}"

    def _tool_result(self, event: events.ToolResult) -> facts.AgentToolResult:
        return facts.AgentToolResult(
            run=self._stage.run,
            call=event.call,
            ok=event.ok,
            output=event.text,
            truncated=event.truncated,
            duration_ms=round(event.duration_ms, 3),
        )

    def _metrics(self, event: events.Usage) -> facts.AgentMetrics:
        return facts.AgentMetrics(
            run=self._stage.run,
            input_tokens=max(event.input_tokens - event.cache_read_tokens - event.cache_write_tokens, 0),
            output_tokens=event.output_tokens,
            cache_read_tokens=event.cache_read_tokens,
            cache_write_tokens=event.cache_write_tokens,
            cost_usd=event.cost_usd,
            turns=0 if event.turn_ms is None else 1,
            tool_calls=event.tool_calls,
            duration_ms=round(event.turn_ms or 0, 3),
            model=self._model,
        )

    async def _keep(self, key: str, event: events.Transcript) -> None:
        await self._stage.transcripts.keep(
            key, self._memory.session, event.path, event.data.encode(), replaces=event.replaces
        )

    async def _answer(self, key: str, event: events.Between) -> None:
        """The model is about to be asked again: what people have said goes in first."""
        if event.ask not in self._said.answers:
            steers = await self._stage.steering.take(key, "turn")
            await self._process.say(orders.go(event.ask, [steer.shown for steer in steers]))

    def _ask(self, key: str, event: events.ApprovalNeeded) -> None:
        if len(self._asking) + len(event.calls) > MOST_ASKED:
            raise AgentFailed(f"the agent asks for more than {MOST_ASKED} tool calls at a time", reason="flood")
        for at, call in enumerate(event.calls):
            if (event.ask, at) not in self._said.verdicts:
                name = f"{key}.{at}"
                self._asking[name] = self._begin(self._judge(name, event.ask, at, call))

    async def _judge(self, key: str, ask: int, at: int, call: events.Call) -> None:
        answer = await self._stage.approve(key, call.tool, call.input, call=call.call)
        denied = None if answer.allowed else answer.reason or "rejected"
        await self._process.say(orders.verdict(ask, at, denied))
        self._asking.pop(key, None)

    async def _end_turn(self, key: str, event: events.Turn) -> None:
        """Raises `AgentFailed` where the conversation cannot go on."""
        if event.turn != self._turns + 1 or event.turn not in self._said.turns:
            raise AgentFailed(f"the agent ends turn {event.turn}, which it was not told to begin", reason="protocol")
        self._turns += 1
        await self._withdraw()
        if event.status in FAILED:
            reason = event.code[:100] or FAILED[event.status]
            raise AgentFailed(event.detail or f"the agent is {event.status}", reason=reason)
        self._result = event.result
        self._begin(self._go_on(key, event.turn + 1))

    async def _withdraw(self) -> None:
        """What leave was asked for is not to happen any more."""
        asked, self._asking = self._asking, {}
        for key, task in asked.items():
            task.cancel()
            await asyncio.wait((task,))
            await self._stage.withdraw(key, "its turn is over")

    async def _go_on(self, key: str, number: int) -> None:
        steers = await self._stage.steering.next_turn(key)
        if steers:
            await self._begin_turn(number, [_words(steer) for steer in steers])
        elif not self._over.done():
            self._over.set_result(None)

    async def _begin_turn(self, number: int, words: list[str]) -> None:
        self._said.turns.add(number)
        await self._process.say(orders.turn(number, words))

    async def _obey(self) -> None:
        while True:
            interrupt = await self._stage.steering.next_interrupt()
            self._known(interrupt.order).set_result(interrupt)
            await self._ready.wait()
            self._begin(self._interrupt(interrupt))

    def _known(self, order: str) -> "asyncio.Future[Interrupt]":
        return self._interrupts.setdefault(order, asyncio.get_running_loop().create_future())

    async def _interrupt(self, interrupt: Interrupt) -> None:
        await self._process.say(orders.interrupt(interrupt.order))
        await asyncio.sleep(OBEY_S)
        if interrupt.order not in self._acknowledged:
            raise AgentFailed("the agent's program did not stop when it was interrupted", reason="hang")

    async def _acknowledge(self, event: events.Interrupted) -> None:
        if event.id in self._acknowledged or self._stage.is_told(f"interrupted/{event.id}"):
            return
        if event.id in self._interrupts or event.id in self._said.interrupts:
            self._acknowledged.add(event.id)
            await self._stage.steering.acknowledge(await self._known(event.id))

    async def _leave(self) -> None:
        await self._process.say(orders.stop())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LEAVE_S):
                await self._ended.wait()


def _words(steer: Steer) -> str:
    return steer.text if steer.kind == "message" else steer.shown


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """What went wrong, of all that was cancelled with it."""
    first = group.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first
