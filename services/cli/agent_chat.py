"""A conversation with the agent of a sandbox: its story above, a line to type below."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

from rich.text import Text

from contracts.commands.agent import StartAgent
from contracts.errors import ClocheError, Invalid
from contracts.events import agent as facts
from contracts.runs import RunState, RunStatus
from infra.client.agent import Agent
from infra.client.agent_run import AgentRun
from infra.words.escaping import printable
from services.cli.agent_answers import chosen, named, require_seen
from services.cli.agent_beginning import first_of, say_or_go_on
from services.cli.agent_following import past
from services.cli.agent_input import Input, PipedLines, TypedLines
from services.cli.agent_narrator import Hints, Narrator
from services.cli.agent_question import answered_lines, question_lines
from services.cli.agent_screen import Prompt, Screen, window
from services.cli.agent_surroundings import KINDS
from services.cli.line_editor import Leave, LineEditor

HINTS = Hints("/approve", "/reject", "why", "say something", "/pending")
BEFORE = 40
"""Lines of the story so far."""
HELP = (
    "type a message and Enter; /help shows this again",
    "/interrupt [WHY]   what it does now stops; then tell it how to go on",
    "/guide TEXT        a word beside the conversation",
    "/approve [ID]      what it asks for; /always the same, and do not ask for it again",
    "/reject [ID] [WHY] or not; it hears why",
    "/pending [ID]      what waits for your answer; with its id, all of it",
    "/queued            what it has not heard yet",
    "/pause /resume     freeze it where it is, and let it go on",
    "/stop [WHY]        end the run",
    "/quit              leave; the agent goes on (also Ctrl-D, Ctrl-C)",
    "//TEXT             a message that begins with a slash",
)


class Chat:
    def __init__(self, agent: Agent, sandbox: str, order: StartAgent | None) -> None:
        """`order`: how to begin where no agent has run yet."""
        self._agent = agent
        self._sandbox = sandbox
        self._order = order
        self._screen = Screen()
        self._is_typed = sys.stdin.isatty() and self._screen.is_live
        self._editor: LineEditor | None = None
        self._narrator: Narrator | None = None
        self._following: asyncio.Task[None] | None = None
        self._news = asyncio.Condition()
        self._seen = self._said = 0
        """The sequences of the last event that was shown, and of the last thing that was said."""
        self.failed = False
        """The last run ended in an error."""

    async def talk(self) -> None:
        """Until somebody leaves; where lines come from a pipe, until the agent has heard and answered them all."""
        try:
            async with self._lines() as lines:
                run = await self._agent.newest()
                if run is not None:
                    await self._join(run)
                elif self._order is None:
                    first_of(None, self._sandbox, "")
                if self._is_typed:
                    self._tell("/help shows what else can be typed; /quit leaves, and the agent goes on", style="dim")
                await self._listen(lines)
        finally:
            if self._following is not None:
                self._following.cancel()
                await asyncio.gather(self._following, return_exceptions=True)
            self._screen.close()

    @property
    def goes_on(self) -> bool:
        """The run was left while it was open."""
        return self._state is not None and self._state.is_open

    @contextlib.asynccontextmanager
    async def _lines(self) -> AsyncIterator[Input]:
        if not self._is_typed:
            with PipedLines() as piped:
                yield piped
            return
        with TypedLines(self._redraw) as typed:
            self._editor = typed.editor
            yield typed

    async def _listen(self, lines: Input) -> None:
        while not isinstance(line := await self._next(lines), Leave):
            if line.strip() in ("/quit", "/exit", "/q"):
                return
            try:
                await self._obey(line)
            except ClocheError as error:
                self._tell(printable(error.message), style="red")
        if not self._is_typed:
            await self._until(self._is_quiet)

    async def _next(self, lines: Input) -> str | Leave:
        """Raises what the story fails with."""
        taking = asyncio.ensure_future(lines.next())
        while not taking.done():
            waiting: set[asyncio.Future[Any]] = {taking}
            if self._following is not None and not self._following.done():
                waiting.add(self._following)
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if self._following is not None and self._following.done():
                self._following.result()
        return taking.result()

    async def _obey(self, line: str) -> None:
        if not line.strip():
            return
        if not line.startswith("/") or line.startswith("//"):
            await self._say(line.removeprefix("/") if line.startswith("//") else line)
            return
        command, _, rest = line[1:].strip().partition(" ")
        rest = rest.strip()
        match command:
            case "approve" | "always" | "reject":
                await self._answer(command, rest)
            case "interrupt":
                await self._agent.interrupt(rest or "asked")
            case "guide" if rest:
                await self._agent.guide(rest)
            case "pause":
                await self._agent.pause(rest or "asked")
            case "resume":
                await self._agent.resume()
            case "stop":
                await self._agent.stop(rest or "asked")
            case "pending":
                await self._list_pending(rest)
            case "queued":
                await self._list_queued()
            case "help":
                for each in HELP:
                    self._tell(each, style="dim")
            case _:
                self._tell(f"there is no /{printable(command, 40)}: /help shows what there is", style="red")

    async def _say(self, text: str) -> None:
        if not self._is_typed:
            # Lines of a program are one side of a conversation, not a heap of them.
            await self._until(self._is_quiet)
        if await self._agent.newest() is None:
            await self._join(await self._agent.begin(first_of(self._order, self._sandbox, text)))
            return
        begun = await say_or_go_on(self._agent, text, keep_open=True)
        if isinstance(begun, AgentRun):
            await self._join(begun)
            return
        if self._state is None or self._state.run != begun.run:
            # Somebody else has begun another meanwhile.
            await self._join(await self._agent.run(begun.run))
        self._said = begun.sequence

    async def _answer(self, command: str, rest: str) -> None:
        if not self._is_typed:
            await self._until(lambda state: bool(state.pending) or self._is_quiet(state))
        asked, reason = chosen(await self._agent.pending(), rest)
        if command == "reject":
            self._show(answered_lines("you reject", asked.request))
            await self._agent.reject(asked.request.approval, reason=reason)
            return
        name = rest.partition(" ")[0]
        require_seen(asked, name)
        if self._is_typed and asked.sequence > self._seen and name != asked.request.approval:
            raise Invalid("what it asks for is not what you have seen: look again")
        self._show(answered_lines("you approve", asked.request))
        await self._agent.approve(asked.request.approval, reason=reason, remember=command == "always")

    async def _list_pending(self, approval: str) -> None:
        found = await self._agent.pending()
        if approval:
            found = [named(found, approval)]
        for each in found:
            self._tell(printable(each.request.approval), style="bold")
            self._show(question_lines(each.request, HINTS.whole, whole=bool(approval)))
        if not found:
            self._tell("nothing is pending", style="dim")

    async def _list_queued(self) -> None:
        found = [f"{each.kind}: {each.text}" for each in await self._agent.queued()]
        for each in found or ["nothing is queued"]:
            self._tell(printable(each, 200), style="dim")

    async def _join(self, run: AgentRun) -> None:
        """Show what has come of it so far, and follow it from there."""
        if self._following is not None:
            await self._following
        self._narrator = Narrator(run, HINTS)
        lines, following = await past(run, self._narrator, BEFORE)
        self._screen.show(lines, self._narrator.tail, self._prompt())
        self._seen = following - 1
        if self._state is not None and any(not each.answered for each in self._state.pending):
            # It may have been asked long before the lines above.
            await self._list_pending("")
        self._following = asyncio.create_task(self._follow(run, self._narrator, following))

    async def _follow(self, run: AgentRun, narrator: Narrator, start: int) -> None:
        if narrator.state is not None and not narrator.state.is_open:
            return
        async for event in run.events(start, follow=True, also=KINDS):
            narrator.width = self._screen.width if self._screen.is_live else None
            self._screen.show(narrator.tell(event), narrator.tail, self._prompt())
            self._seen = event.sequence
            if event.ends_run:
                self.failed = isinstance(event.fact, facts.AgentError)
                if self._is_typed:
                    self._tell("say something, and it goes on from here", style="dim")
            async with self._news:
                self._news.notify_all()

    async def _until(self, reached: Callable[[RunState], bool]) -> None:
        """Returns at once while there is no run."""
        async with self._news:
            await self._news.wait_for(lambda: self._state is None or reached(self._state))

    @property
    def _state(self) -> RunState | None:
        return None if self._narrator is None else self._narrator.state

    def _is_quiet(self, state: RunState) -> bool:
        """It waits for the next line, or is over."""
        waits = state.status == RunStatus.WAITING and not state.queued and self._seen >= self._said
        return waits or not state.is_open

    def _tell(self, text: str, style: str) -> None:
        self._show([Text(text, style=style)])

    def _redraw(self) -> None:
        self._show(())

    def _show(self, lines: Iterable[Text]) -> None:
        self._screen.show(lines, None if self._narrator is None else self._narrator.tail, self._prompt())

    def _prompt(self) -> Prompt | None:
        if self._editor is None:
            return None
        lead = self._lead()
        shown = window(self._editor.shown, self._editor.cursor, self._screen.width - len(lead))
        return Prompt(lead + shown.text, len(lead) + shown.cursor)

    def _lead(self) -> str:
        state = self._state
        if state is None or not state.is_open:
            return "> "
        if any(not each.answered for each in state.pending):
            return "(asks) > "
        return f"({state.status}) > "
