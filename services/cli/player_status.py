"""The line below what is played. Pure."""

from typing import NamedTuple

from rich.cells import cell_len, set_cell_size

from infra.words.escaping import printable
from services.cli.player_window import Size

HINTS = (
    "space pause  ←→ 5s  ↑↓ speed  0-9 jump  . step  [ ] marks  q quit",
    "space ←→ ↑↓ 0-9 . [ ] q",
    "q quit",
)
"""The keys, as far as there is room."""
REVERSE = "\x1b[7m"
LABEL = 60
LEAST_LABEL = 16


class Standing(NamedTuple):
    place: float
    total: float
    is_total_known: bool
    speed: float
    paused: bool
    ended: bool
    seeking: bool
    sequence: int
    label: str
    part_of: Size | None
    """The recorded terminal, where not all of it is shown."""
    keys: bool


def status_line(standing: Standing, cols: int) -> str:
    """Exactly so many cells, in reverse video. What does not fit is left out."""
    total = clock_of(standing.total) + ("" if standing.is_total_known else "+")
    text = f" {_state(standing)} {clock_of(standing.place)} / {total}  {standing.speed:g}x  #{standing.sequence}"
    if standing.part_of is not None:
        text += f"  part of {standing.part_of.cols}x{standing.part_of.rows}"
    hints = HINTS if standing.keys else ()
    if standing.label:
        room = cols - cell_len(text) - (cell_len(hints[1]) + 4 if hints else 2)
        text += f"  {printable(standing.label, min(max(room, LEAST_LABEL), LABEL))}"
    room = cols - cell_len(text) - 2
    text += next((f"  {hint}" for hint in hints if cell_len(hint) <= room), "")
    return f"{REVERSE}{set_cell_size(text, cols)}"


def clock_of(seconds: float) -> str:
    """`0:07`, `12:30`, `1:00:05`."""
    whole = int(seconds)
    hours, minutes = whole // 3600, whole // 60 % 60
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"


def _state(standing: Standing) -> str:
    if standing.seeking:
        return "… seeking"
    if standing.ended:
        return "■ ended  "
    return "❚❚ paused" if standing.paused else "▶ playing"
