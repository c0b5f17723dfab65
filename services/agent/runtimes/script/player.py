"""Plays the steps of one turn.

From the beginning each time: what an earlier life of this service has told is passed over, and the first step that is
not told is the next to be done.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import NamedTuple

from contracts.errors import AgentFailed
from contracts.events import agent as facts
from services.agent.digest import digest
from services.agent.record import Steer
from services.agent.runtimes.script.calls import DENIED, DONE, SILENCE, UNEXPECTED, Call, Calls, Outcome, call_id, used
from services.agent.runtimes.script.halting import Halt, Halted
from services.agent.runtimes.script.script import (
    Ask,
    Edit,
    Fail,
    Read,
    Repeat,
    Run,
    Say,
    Script,
    Spend,
    Step,
    Steps,
    Subagent,
    Think,
    Wait,
    Write,
)
from services.agent.runtimes.script.tools import Tools
from services.agent.runtimes.script.words import Known, fill, fill_command
from services.agent.stage import Stage


class Place(NamedTuple):
    """Where a step stands. Its key begins the keys of everything that the step does."""

    key: str
    parent: str | None = None
    """The call of the subagent whose step it is."""
    round: int = 0
    deaf: bool = False
    """Within what it does about a message: the next is heard afterwards."""


def words_of(steers: Sequence[Steer]) -> str:
    return "\n".join(steer.text if steer.kind == "message" else steer.shown for steer in steers)


class Player:
    def __init__(self, stage: Stage, script: Script, halt: Halt, *, turn: int, message: str) -> None:
        self._stage = stage
        self._script = script
        self._halt = halt
        self._turn = turn
        self._message = message
        self._calls = Calls(stage, halt)
        self._tools = Tools(stage)
        self.last = ""
        """What the agent itself has said last in this turn."""

    @property
    def calls(self) -> int:
        return self._calls.count

    async def play(self, steps: Steps, key: str) -> None:
        """To the end of the turn, which may be an interrupt.

        Raises `AgentFailed` where the script says so, `ProcessLost`, `BudgetSpent`.
        """
        try:
            await self._steps(steps, Place(key))
        except Halted:
            return

    async def _steps(self, steps: Steps, place: Place) -> None:
        for number, step in enumerate(steps):
            # What is passed over waits for nothing, and others want their turn.
            await asyncio.sleep(0)
            await self._step(step, place._replace(key=f"{place.key}.{number}"))

    async def _step(self, step: Step, place: Place) -> None:
        match step:
            case Say():
                await self._say(step.say, place)
            case Think():
                thought = facts.AgentThinking(run=self._stage.run, text=self._fill(step.think, place))
                await self._tell(f"{place.key}/thought", thought)
            case Run():
                await self._run(step, place)
            case Write() | Edit() | Read():
                await self._file(step, place)
            case Ask():
                await self._ask(step, place)
            case Wait():
                await self._wait(step, place)
            case Fail():
                await self._calls.ready()
                raise AgentFailed(self._fill(step.fail, place), reason="script")
            case Spend():
                await self._spend(step, place)
            case Repeat():
                for number in range(step.repeat):
                    await self._steps(step.steps, place._replace(key=f"{place.key}.{number}", round=number + 1))
            case Subagent():
                await self._subagent(step, place)

    async def _say(self, said: str | tuple[str, ...], place: Place) -> None:
        parts = tuple(self._fill(each, place) for each in ((said,) if isinstance(said, str) else said))
        key, message = f"{place.key}/said", f"m-{digest(self._stage.run, place.key)}"
        if not self._stage.is_told(key):
            await self._calls.ready()
            if len(parts) > 1:
                for part in parts:
                    await self._stage.partials.add("message", message, part)
                await self._stage.partials.whole("message", message)
            whole = facts.AgentMessage(run=self._stage.run, text="".join(parts), message=message, parent=place.parent)
            await self._stage.tell(key, whole)
        if place.parent is None:
            self.last = "".join(parts)

    async def _run(self, step: Run, place: Place) -> None:
        call = await self._hear(place)
        command = fill_command(step.run, self._known(place))
        shown = command if isinstance(command, str) else list(command)
        call = call.of("run", {"command": shown})
        way = await self._calls.make(call, lambda call: self._tools.run(call, command, step))
        if way == UNEXPECTED:
            result = (await self._tools.carried(call, command, step.timeout_ms)).result
            how = f"exit code {result.shell_code}" if result.outcome == "completed" else result.outcome
            raise AgentFailed(f"{str(shown)[:200]}: {how}, not {step.expect}", reason="unexpected")

    async def _file(self, step: Write | Edit | Read, place: Place) -> None:
        call, tools = await self._hear(place), self._tools
        match step:
            case Write():
                content = self._fill(step.content, place)
                call = call.of("write", {"path": step.write, "content": content})
                await self._calls.make(call, lambda call: tools.write(call, step, content))
            case Edit():
                old, new = self._fill(step.old, place), self._fill(step.new, place)
                call = call.of("edit", {"path": step.edit, "old": old, "new": new})
                await self._calls.make(call, lambda call: tools.edit(call, step, old, new))
            case Read():
                call = call.of("read", {"path": step.read})
                await self._calls.make(call, lambda call: tools.read(call, step))

    async def _ask(self, step: Ask, place: Place) -> None:
        call = await self._hear(place)
        question = self._fill(step.ask, place)
        if step.tool is None:
            call = call.of("ask", {"question": question})._replace(free=True)
            if await self._calls.make(call, lambda call: self._answered(call, question)) == DONE:
                await self._recall_answer(call)
            return
        call = call.of(step.tool, {"question": question, **step.input})._replace(asks=True)
        way = await self._calls.make(call, _approved)
        if way in (DONE, DENIED):
            steps = step.denied if way == DENIED else step.steps
            await self._steps(steps, place._replace(key=f"{place.key}.{way}"))

    async def _answered(self, call: Call, question: str) -> Outcome:
        message = f"m-{digest(self._stage.run, call.key)}"
        asked = facts.AgentMessage(run=self._stage.run, text=question, message=message, parent=call.parent)
        await self._tell(f"{call.key}/question", asked)
        return await self._told(call, None)

    async def _wait(self, step: Wait, place: Place) -> None:
        wanted, tools = step.wait, self._tools
        given = {name: value for name in wanted.__struct_fields__ if (value := getattr(wanted, name))}
        call = (await self._hear(place)).of("wait", given)._replace(free=True)
        if wanted.message:
            limit = None if wanted.timeout_ms is None else wanted.timeout_ms / 1000
            way = await self._calls.make(call, lambda call: self._message_came(call, limit))
            if way == DONE and not call.heard:
                await self._recall_answer(call)
        elif (path := wanted.file) is not None:
            await self._calls.make(call, lambda call: tools.until_there(call, path, wanted.timeout_ms))
        else:
            await self._calls.make(call, lambda _: self._slept((wanted.ms or 0) / 1000))

    async def _slept(self, seconds: float) -> Outcome:
        await self._halt.unless(asyncio.sleep(seconds))
        return Outcome(True, "", duration_ms=seconds * 1000)

    async def _message_came(self, call: Call, limit: float | None) -> Outcome:
        return Outcome(True, self._message) if call.heard else await self._told(call, limit)

    async def _told(self, call: Call, limit: float | None) -> Outcome:
        """Until something is said to the agent, or that many seconds have passed."""
        loop = asyncio.get_running_loop()
        end = None if limit is None else loop.time() + limit
        while not (steers := await self._stage.steering.take(_answer(call), "turn", call.id)):
            try:
                async with asyncio.timeout_at(end):
                    await self._halt.unless(self._stage.steering.steered())
            except TimeoutError:
                return Outcome(True, "nobody has said anything", SILENCE)
        return Outcome(True, words_of(steers))

    async def _recall_answer(self, call: Call) -> None:
        """It is on record by now: nothing new is taken."""
        if steers := await self._stage.steering.take(_answer(call), "turn", call.id):
            self._message = words_of(steers)

    async def _spend(self, step: Spend, place: Place) -> None:
        key = f"{place.key}/spent"
        if not self._stage.is_told(key):
            await self._calls.ready()
        spent = facts.AgentMetrics(
            run=self._stage.run,
            input_tokens=step.spend.input_tokens,
            output_tokens=step.spend.output_tokens,
            cost_usd=step.spend.cost_usd,
        )
        await self._stage.spend(key, spent)

    async def _subagent(self, step: Subagent, place: Place) -> None:
        call = await self._hear(place)
        call = call.of("subagent", {"prompt": self._fill(step.subagent, place)})._replace(lasts=True)
        inner, calls = place._replace(parent=call.id), self._calls

        async def work(_: Call) -> Outcome:
            await self._steps(step.steps, inner)
            return Outcome(True, "")

        if calls.way(call.key) is None:
            await calls.make(call, work)
            return
        calls.passing = True
        with contextlib.suppress(Halted):
            await calls.make(call, work)
            await self._steps(step.steps, inner)
        calls.passing = False

    async def _hear(self, place: Place) -> Call:
        """A call that is about to be made, after what was said meanwhile is heard. Raises `Halted`."""
        stage, call = self._stage, call_id(self._stage.run, place.key)
        made = Call(place.key, call, parent=place.parent)
        if place.deaf or stage.is_told(made.used):
            return made
        if not stage.is_told(used(place.key, heard=True)):
            await self._calls.ready()
        steers = await stage.steering.take(f"{place.key}/heard", "tool_call", call)
        if not steers:
            return made
        self._message = words_of(steers)
        await self._steps(self._script.on_message, place._replace(key=f"{place.key}.heard", deaf=True))
        return made._replace(heard=True)

    async def _tell(self, key: str, fact: facts.AgentThinking | facts.AgentMessage) -> None:
        if not self._stage.is_told(key):
            await self._calls.ready()
            await self._stage.tell(key, fact)

    def _known(self, place: Place) -> Known:
        return Known(self._message, self._stage.order.prompt, self._turn, place.round)

    def _fill(self, text: str, place: Place) -> str:
        return fill(text, self._known(place))


async def _approved(_: Call) -> Outcome:
    return Outcome(True, "approved")


def _answer(call: Call) -> str:
    return f"{call.key}/answer"
