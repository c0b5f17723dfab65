"""What terminals showed, as a program outside sees it. Also of a sandbox that is gone, or was imported."""

from contracts import subjects
from contracts.errors import Invalid
from contracts.ids import is_token
from contracts.screens import MAX_SCROLLBACK, GetScreen, Screen
from infra.bus.connection import Bus
from infra.client.asking import ask
from infra.log.lacking import warn_of
from infra.moments import Moment

SCREEN_TIMEOUT_S = 110.0
"""The first question about a huge output takes as long as reading it. The server forgets whom to answer after that."""


async def screen_at(
    bus: Bus,
    sandbox: str,
    exec: str | None = None,  # noqa: A002
    at: Moment | None = None,
    scrollback: int = 0,
) -> Screen:
    """What the terminal of a command showed after the event with a sequence, or after what was stored up to a time.

    Absent: the last command that was started by then; now. `scrollback` lines above the screen, 2,000 at most.

    Raises `SandboxNotFound`, `Invalid` (no such command, it had not begun by then, the log does not reach so far),
    `Unavailable`.
    """
    for name, what in ((sandbox, "a sandbox id"), (exec, "the id of a command")):
        if name is not None and not is_token(name):
            raise Invalid(f"{name!r} is not {what}: letters, digits, '-' and '_', 64 at most")
    if not 0 <= scrollback <= MAX_SCROLLBACK:
        raise Invalid(f"{scrollback} lines of scrollback: 0 to {MAX_SCROLLBACK} can be asked for")
    sequence, time = (at, None) if isinstance(at, int) else (None, at)
    query = GetScreen(sandbox=sandbox, exec=exec, at=sequence, time=time, scrollback=scrollback)
    answer: Screen = await ask(bus, subjects.state_rpc("screen"), query, Screen, timeout=SCREEN_TIMEOUT_S)
    warn_of(answer.lacking)
    return answer
