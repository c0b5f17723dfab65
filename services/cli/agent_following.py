"""A run, shown as it goes on."""

from rich.text import Text

from contracts.events import agent
from contracts.runs import RunState
from infra.client.agent_run import AgentRun, RunEvent
from services.cli.agent_narrator import Hints, Narrator
from services.cli.agent_screen import Screen
from services.cli.agent_surroundings import KINDS
from services.cli.passthrough import STDOUT, write_all

FAILED = 1


async def follow(
    run: AgentRun, hints: Hints, *, start: int | None = None, json: bool = False, one_turn: bool = False
) -> int:
    """To its end; with `one_turn`, also until it waits for somebody. Returns the exit code: 0, or 1 for an error.

    What happened before sequence `start` is not shown.
    """
    if json:
        return await _verbatim(run, start or run.first_sequence, one_turn=one_turn)
    screen = Screen()
    narrator = Narrator(run, hints)
    try:
        async for event in run.events(follow=True, also=KINDS):
            narrator.width = screen.width if screen.is_live else None
            lines = narrator.tell(event)
            if start is None or event.sequence >= start:
                screen.show(lines, narrator.tail)
                if one_turn and waits(narrator.state, event):
                    return 0
            if event.ends_run:
                return _code(event)
    finally:
        screen.close()
    return FAILED


async def _verbatim(run: AgentRun, start: int, *, one_turn: bool) -> int:
    state: RunState | None = None
    async for event in run.events(follow=True):
        state = run.fold(state, event)
        if event.sequence >= start:
            write_all(STDOUT, b'{"sequence":%d,"event":%b}\n' % (event.sequence, event.raw))
            if one_turn and waits(state, event):
                return 0
        if event.ends_run:
            return _code(event)
    return FAILED


def waits(state: RunState | None, event: RunEvent) -> bool:
    """Whether with this event the run has come to wait for somebody who has not said anything yet."""
    return isinstance(event.fact, agent.AgentWaiting) and state is not None and not state.queued


def _code(event: RunEvent) -> int:
    return FAILED if isinstance(event.fact, agent.AgentError) else 0


async def past(run: AgentRun, narrator: Narrator, most: int) -> tuple[list[Text], int]:
    """The last lines of its story so far, and the sequence to go on from."""
    lines: list[Text] = []
    following = run.first_sequence
    async for event in run.events(also=KINDS):
        lines = [*lines, *narrator.tell(event)][-most:]
        following = event.sequence + 1
    return lines, following
