"""Lines as text and SGR sequences, and nothing else."""

from collections.abc import Iterable

from infra.terminal.row import Span
from infra.terminal.style import DEFAULT, sgr

RESET = "\x1b[0m"


def render(spans: Iterable[Span]) -> str:
    """Every line begins in the default style and ends with it."""
    pieces: list[str] = []
    styled = False
    for text, style in spans:
        if style != DEFAULT:
            pieces.append(sgr(style))
        elif styled:
            pieces.append(RESET)
        styled = style != DEFAULT
        pieces.append(text)
    if styled:
        pieces.append(RESET)
    return "".join(pieces)


def plain(spans: Iterable[Span]) -> str:
    return "".join(span.text for span in spans).rstrip(" ")
