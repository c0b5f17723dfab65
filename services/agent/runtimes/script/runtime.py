"""An agent that does what a file says, step by step, and needs no model: for demonstrations, tests and the docs."""

import asyncio
import time
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta, Struct

from contracts.commands.agent import StartAgent
from contracts.errors import AgentFailed, Invalid
from contracts.events import agent as facts
from contracts.message import JsonObject
from services.agent.runtimes.runtime import Ending
from services.agent.runtimes.script import reading
from services.agent.runtimes.script.halting import Halt, Interrupts
from services.agent.runtimes.script.player import Player, words_of
from services.agent.runtimes.script.script import Script
from services.agent.stage import Stage

TURNS = "turns"
"""The document that says how many turns of the script are over."""
LONGEST = 10**6
"""Facts of earlier runs that are looked through."""


class Options(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    script: Annotated[str, Meta(max_length=reading.MAX_TEXT)] | None = None
    """The text of the file. A run that goes on from another may leave it out, and goes on in that one's."""


def options_of(given: JsonObject) -> Options:
    """Raises `Invalid`."""
    try:
        return msgspec.convert(given, Options)
    except msgspec.ValidationError as error:
        raise Invalid(f"options of the runtime script: {error}") from error


class ScriptRuntime:
    name = "script"

    def check(self, order: StartAgent) -> None:
        text = options_of(order.options).script
        if text is not None:
            reading.read(text)
        elif order.resume is None:
            raise Invalid("options of the runtime script: `script` is missing, the text of a script")

    async def drive(self, stage: Stage) -> Ending:
        part = await _part(stage)
        told = facts.AgentAttached(run=stage.run, process="", attempt=stage.attempt, reason=stage.story)
        await stage.tell(f"attached/{stage.attempt}", told)
        async with Interrupts(stage) as interrupts:
            return await _Performance(stage, part, interrupts).give()


class Part(NamedTuple):
    script: Script
    first: int
    """The turn of it that this run begins with, from 0 on."""


async def _part(stage: Stage) -> Part:
    """A run that goes on from another goes on in its script, unless it has a script of its own.

    Raises `AgentFailed` where no run of the conversation has one.
    """
    text = options_of(stage.order.options).script
    if stage.order.resumed is None:
        return Part(await asyncio.to_thread(reading.read, text or ""), 0)
    conversation = await stage.transcripts.conversation(LONGEST)
    begun = [fact for fact in conversation if isinstance(fact, facts.AgentStarted) and fact.run != stage.run]
    scripts = [each for fact in begun if isinstance(each := fact.options.get("script"), str)]
    earlier = scripts[-1] if scripts else None
    if text is None and earlier is None:
        raise AgentFailed("no run of this conversation has a script", reason="script")
    if text not in (None, earlier):
        return Part(await asyncio.to_thread(reading.read, text or ""), 0)
    documents = await stage.transcripts.documents()
    turns = [int(each.data) for each in documents if (each.session, each.path) == (begun[-1].run, TURNS)]
    return Part(await asyncio.to_thread(reading.read, earlier or ""), turns[0] if turns else 0)


class _Performance:
    def __init__(self, stage: Stage, part: Part, interrupts: Interrupts) -> None:
        self._stage = stage
        self._script, self._first = part
        self._interrupts = interrupts
        self._last = ""

    async def give(self) -> Ending:
        steering = self._stage.steering
        if self._first:
            await self._keep("turns/kept", self._first)
        number, message = 0, self._stage.order.prompt
        while True:
            await self._turn(number, message)
            number += 1
            steers = await self._interrupts.while_idle(steering.next_turn(f"turn/{number}"))
            if not steers:
                for interrupt in await self._interrupts.rest():
                    await steering.acknowledge(interrupt)
                return Ending(result=self._last)
            message = words_of(steers)

    async def _turn(self, number: int, message: str) -> None:
        stage, key, halt = self._stage, f"turn/{number}", Halt()
        over = stage.is_told(f"{key}/over")
        if over:
            halt.set()
        began, turn = time.monotonic(), self._first + number
        player = Player(stage, self._script, halt, turn=turn + 1, message=message)
        playing = player.play(self._script.turn(turn), key)
        if over:
            await playing
        else:
            came = [*await self._interrupts.during(playing, halt), *await self._interrupts.rest()]
            await self._close(key, turn + 1, player.calls, _since(began))
            for interrupt in came:
                await stage.steering.acknowledge(interrupt)
        self._last = player.last or self._last

    async def _close(self, key: str, turns: int, calls: int, duration_ms: float) -> None:
        """Before an interrupt is acknowledged: a later life has to know that nothing more of this turn is done."""
        stage = self._stage
        await self._keep(f"{key}/kept", turns)
        spent = facts.AgentMetrics(run=stage.run, turns=1, tool_calls=calls, duration_ms=duration_ms)
        await stage.tell(f"{key}/over", spent)

    async def _keep(self, key: str, turns: int) -> None:
        await self._stage.transcripts.keep(key, self._stage.run, TURNS, b"%d" % turns, replaces=True)


def _since(began: float) -> float:
    return round((time.monotonic() - began) * 1000, 3)
