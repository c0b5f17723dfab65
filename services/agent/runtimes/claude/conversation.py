"""One process of the CLI, spoken with until the run is over."""

import asyncio
import contextlib
import signal
from collections.abc import Coroutine
from typing import Any

from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient

from contracts.commands.command import Scope
from contracts.errors import AgentFailed, ClocheError, Invalid
from services.agent.budget import BudgetSpent
from services.agent.lines import Line
from services.agent.process import Process
from services.agent.record import PROMPT, Interrupt, Steer
from services.agent.runtimes.claude.command_line import NOT_FOUND, token
from services.agent.runtimes.claude.events import Telling
from services.agent.runtimes.claude.frames import Frame
from services.agent.runtimes.claude.given import Given, on_record
from services.agent.runtimes.claude.hooks import Hooks
from services.agent.runtimes.claude.mirror import Mirror
from services.agent.runtimes.claude.sessions import Session
from services.agent.runtimes.claude.transport import ProcessTransport, answered
from services.agent.runtimes.claude.turns import Turns
from services.agent.runtimes.runtime import Ending
from services.agent.stage import Stage

INTERRUPT_S = 0.3
"""For the CLI to take note; then what its tools have started is killed in any case."""
SETTLE_S = 20.0
ENDING_S = 20.0


async def begin(stage: Stage, process: Process, session: Session) -> "Conversation":
    """Or go on with one that an earlier life of this service has begun."""
    done = await asyncio.to_thread(answered, process.inputs)
    return Conversation(stage, process, session, done, Given(process.id, await on_record(stage)))


class Conversation:
    def __init__(self, stage: Stage, process: Process, session: Session, done: set[str], given: Given) -> None:
        self._stage = stage
        self._process = process
        self._mirror = Mirror(stage, session.id, session.kept)
        self._parting = False
        self._speaking = asyncio.Lock()
        """Held while a turn is begun in the midst of others, and while everything is being stopped."""
        self._heard: asyncio.Task[None]
        self._turns = Turns()
        self._telling = Telling(stage, session.spent_usd)
        self._given = given
        self._hooks = Hooks(stage, process, given)
        self._transport = ProcessTransport(process, done, self._take, self._refuse, self._hooks.withdraw)

    async def hold(self, options: ClaudeAgentOptions, prompt: str) -> Ending:
        """To the end of the run. Raises what `Runtime.drive` raises."""
        client = ClaudeSDKClient(self._hooks.into(options), self._transport)
        self._heard = asyncio.create_task(self._transport.pump())
        talk = asyncio.create_task(self._talk(client, prompt))
        others = [self._heard, asyncio.create_task(self._obey()), asyncio.create_task(self._hooks.fail())]
        try:
            return await self._outcome(talk, others)
        finally:
            for task in (talk, *others):
                task.cancel()
            await asyncio.gather(talk, *others, return_exceptions=True)
            await client.disconnect()
            await self._hooks.aclose()

    async def _outcome(self, talk: "asyncio.Task[Ending]", others: "list[asyncio.Task[None]]") -> Ending:
        await asyncio.wait([talk, *others], return_when=asyncio.FIRST_COMPLETED)
        if talk.done() and _hears_no_more(talk.exception()):
            # What it said last tells why.
            await asyncio.wait([self._heard])
        for task in others:
            if task.done() and (error := task.exception()) is not None and not _hears_no_more(error):
                raise error
        if self._heard.done() and not self._parting:
            raise self._fell_silent()
        return await talk

    async def _talk(self, client: ClaudeSDKClient, prompt: str) -> Ending:
        await self._shake_hands(client)
        return await self._converse(prompt)

    async def _shake_hands(self, client: ClaudeSDKClient) -> None:
        try:
            async with self._stage.within(self._stage.settings.handshake_s):
                await client.connect()
        except TimeoutError:
            raise AgentFailed("the agent's program does not answer", reason="hang") from None
        except ClocheError:
            raise
        except Exception as error:
            # The SDK has no error of its own for what a program refuses.
            raise AgentFailed(f"the agent's program cannot be used: {error}", reason="handshake") from error

    async def _converse(self, prompt: str) -> Ending:
        number = 1
        await self._say("prompt", prompt)
        while await self._goes_on(f"turn/{number}"):
            number += 1
        await self._part()
        return Ending(result=self._telling.result)

    async def _goes_on(self, turn: str) -> bool:
        """What is said begins the next turn; False = the run is over."""
        key, steering = f"{self._process.id}/{turn}", self._stage.steering
        await self._turns.free()
        while not self._turns.is_over():
            # While a subagent is at work in the background, the agent can be spoken to.
            await first_of(self._turns.over(), steering.steered())
            async with self._speaking:
                if not self._turns.is_over() and (said := await steering.take(key, PROMPT)):
                    await self._prompt(turn, said)
                    return True
        if self._telling.budget:
            raise BudgetSpent(self._telling.budget)
        if self._telling.trouble is not None:
            raise self._telling.trouble
        said = await steering.next_turn(key)
        if said:
            await self._prompt(turn, said)
        return bool(said)

    async def _prompt(self, turn: str, said: tuple[Steer, ...]) -> None:
        await self._say(turn, "\n\n".join(_as_prompt(steer) for steer in said))

    async def _say(self, key: str, words: str) -> None:
        """What was given with a tool call and not seen by the model is said once more."""
        name = token(self._process.id, key)
        self._turns.say(name)
        said = self._said_before(name)
        if said is None:
            await self._hooks.settled()
            content = "\n\n".join((*self._given.unseen(), words))
            message = {"role": "user", "content": content}
            frame = {"type": "user", "message": message, "parent_tool_use_id": None, "session_id": "", "uuid": name}
            said = await self._transport.say(frame)
        self._given.repeat(said)

    def _said_before(self, name: str) -> bytes | None:
        """In an earlier life, whose words may have been others."""
        return next((line for line in self._process.inputs if name.encode() in line), None)

    async def _part(self) -> None:
        """It ends by itself once nobody speaks to it, and first mirrors the rest of its memory."""
        self._parting = True
        with contextlib.suppress(TimeoutError):
            async with self._stage.within(ENDING_S):
                if self._process.result is None:
                    await self._process.end_input()
                await asyncio.wait([self._heard])

    async def _obey(self) -> None:
        while True:
            interrupt = await self._stage.steering.next_interrupt()
            async with self._speaking:
                await self._interrupt(interrupt)

    async def _interrupt(self, interrupt: Interrupt) -> None:
        """The CLI lets go of the tool call; what the call has started may not hear of it, and is killed."""
        await self._turns.begun()
        if not self._turns.is_over():
            name = f"interrupt-{interrupt.order}"
            await self._ask_to_stop(name)
            for task in self._turns.tasks():
                await self._ask(f"{name}-{task}", subtype="stop_task", task_id=task)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(INTERRUPT_S):
                    await self._turns.answered(name)
            await self._process.signal(signal.SIGKILL, scope=Scope.REST, key=name)
            # A sandbox's orders are carried out one after the other: when this is on record, the signal was sent.
            await self._ask_to_stop(f"{name}-again")
            try:
                async with self._stage.within(SETTLE_S):
                    await self._turns.over()
            except TimeoutError:
                raise AgentFailed("the agent does not stop when it is interrupted", reason="hang") from None
        await self._stage.steering.acknowledge(interrupt)

    async def _ask_to_stop(self, name: str) -> None:
        await self._ask(name, subtype="interrupt")

    async def _ask(self, name: str, **request: str) -> None:
        await self._transport.say({"type": "control_request", "request_id": name, "request": request})

    async def _take(self, line: Line, frame: Frame) -> None:
        key = f"{self._process.id}@{line.offset}"
        if frame["type"] == "transcript_mirror":
            await self._keep(line, f"{key}.transcript", frame)
        await self._telling.feed(key, frame)
        self._given.feed(line, frame)
        self._turns.feed(frame)

    async def _keep(self, line: Line, key: str, frame: Frame) -> None:
        try:
            await self._mirror.keep(key, frame)
        except Invalid as error:
            await self._refuse(line, error.message)

    async def _refuse(self, line: Line, why: str) -> None:
        await self._stage.garbage(self._process, line, why)

    def _fell_silent(self) -> AgentFailed:
        result = self._process.result
        if result is not None and result.exit_code == NOT_FOUND:
            return AgentFailed(
                "there is no claude in the sandbox: install it on the node (pip install 'cloche[claude]') and make the "
                "sandbox anew, or use an image that has it, or name it (option `cli`)",
                reason="missing",
                last_words=self._process.last_words,
            )
        return self._stage.fell_silent(self._process, "before the run was over")


async def first_of(*work: Coroutine[Any, Any, None]) -> None:
    """Returns, or raises, with the first of them; the others are given up."""
    tasks = [asyncio.create_task(each) for each in work]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _as_prompt(steer: Steer) -> str:
    return steer.text if steer.kind == "message" else steer.shown


def _hears_no_more(error: BaseException | None) -> bool:
    return isinstance(error, AgentFailed) and error.details.get("reason") == "ended"
