"""What a terminal showed at a sequence of the log, asked for on `cloche.rpc.state.screen`."""

from typing import Annotated

from msgspec import Meta, Struct

from contracts.events.command import TerminalSize
from contracts.history import Sequence
from contracts.ids import ExecId, SandboxId
from contracts.lacking import Lack
from contracts.message import Order, Time

MAX_SCROLLBACK = 2000
MAX_COLS = 1000
MAX_ROWS = 1000
"""As many as a command may ask for."""
DEFAULT_SIZE = TerminalSize(rows=24, cols=80)


def bounded(size: TerminalSize) -> TerminalSize:
    """A log can say anything: a size that a terminal can have."""
    return TerminalSize(rows=min(max(size.rows, 1), MAX_ROWS), cols=min(max(size.cols, 1), MAX_COLS))


class GetScreen(Order, frozen=True, kw_only=True):
    sandbox: SandboxId
    exec: ExecId | None = None
    """Absent = the last command that was started by then."""
    at: Sequence | None = None
    """After the event with this sequence. Absent = now."""
    time: Time | None = None
    """Instead of `at`."""
    scrollback: Annotated[int, Meta(ge=0, le=MAX_SCROLLBACK)] = 0
    """Lines above the screen, at most."""


class Screen(Struct, frozen=True, kw_only=True):
    """As a terminal emulator shows all output of the command up to there. Lines are text and SGR sequences only."""

    exec: str
    sequence: int
    """The sequence that this holds for: what follows has larger ones."""
    pty: bool
    """A command without one is shown as on a terminal of 80 by 24."""
    cols: int
    rows: int
    lines: tuple[str, ...]
    """As many as `rows`, from the top. Trailing blanks are left out; every line ends with its style reset."""
    scrollback: tuple[str, ...] = ()
    """Oldest first."""
    cursor_x: int = 0
    cursor_y: int = 0
    cursor_hidden: bool = False
    title: str = ""
    alternate: bool = False
    """It shows the alternate screen, as editors and pagers do."""
    bytes: int = 0
    """Of output so far."""
    ended: bool = False
    truncated: bool = False
    """The answer had no room for all of the scrollback that was asked for, or for all of a huge screen: then its lines
    are without styles, and cut."""
    lacking: tuple[Lack, ...] = ()
    """What the log has lost since the sandbox began, up to there: this was drawn without it."""


REQUESTS: dict[str, type[Order]] = {"screen": GetScreen}
ANSWERS: dict[str, type[Struct]] = {"screen": Screen}
