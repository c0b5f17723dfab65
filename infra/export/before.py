"""What a terminal showed before the part of a session that is exported."""

from contracts import codec
from contracts.errors import Invalid
from contracts.tape import Frame, FrameKind, Tape
from infra.log.view import LogView
from infra.terminal.emulator import Emulator


async def screen_before(view: LogView, filters: list[str], first: int, tape: Tape) -> Emulator | None:
    """Plays the tape up to a sequence; None where nothing was shown by then. Raises what reading raises."""
    emulator, is_shown = Emulator(scrollback=0), False
    if first <= 1:
        return None
    async for entry in view.read(filters, end=first - 1):
        try:
            head = codec.decode_head(entry.data)
            frames = tape.feed(entry.seq, head, codec.decode_fact(head))
        except Invalid:
            continue
        for frame in frames:
            is_shown = show(emulator, frame) or is_shown
    return emulator if is_shown else None


def show(emulator: Emulator, frame: Frame) -> bool:
    """Returns whether it is something to be seen."""
    if frame.kind == FrameKind.OUTPUT:
        emulator.feed(frame.data)
    elif frame.kind == FrameKind.RESIZE and frame.size is not None:
        emulator.resize(frame.size.cols, frame.size.rows)
    else:
        return False
    return True


def repainted(emulator: Emulator) -> str:
    """What makes an empty terminal of its size look like it."""
    x, y, hidden = emulator.cursor
    screen = "\x1b[?1049h\x1b[H" if emulator.alternate else ""
    cursor = f"\x1b[{y + 1};{x + 1}H" + ("\x1b[?25l" if hidden else "")
    return screen + "\r\n".join(emulator.lines()) + cursor
