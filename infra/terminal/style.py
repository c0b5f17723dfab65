"""How a character looks, and the SGR sequences that say so."""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

NO_COLOUR = -1
TRUE_COLOUR = 0x1000000
"""Set in a colour that is not one of the 256 of the palette, but red, green and blue."""


class Style(NamedTuple):
    foreground: int = NO_COLOUR
    """0 to 255 of the palette (the first 16 as the reader's terminal has them), `TRUE_COLOUR | 0xrrggbb`, or none."""
    background: int = NO_COLOUR
    bold: bool = False
    dim: bool = False
    italic: bool = False
    underline: bool = False
    strike: bool = False
    reverse: bool = False
    blink: bool = False


DEFAULT = Style()

_PARAMETERS = re.compile("[0-9;:]*")
"""With anything else it is another sequence, such as one that tells how keys are to be reported."""

_SET = {1: "bold", 2: "dim", 3: "italic", 4: "underline", 5: "blink", 6: "blink", 7: "reverse", 9: "strike"}
_UNSET: dict[int, tuple[str, ...]] = {
    22: ("bold", "dim"),
    23: ("italic",),
    24: ("underline",),
    25: ("blink",),
    27: ("reverse",),
    29: ("strike",),
}
_CODES = (("bold", 1), ("dim", 2), ("italic", 3), ("underline", 4), ("blink", 5), ("reverse", 7), ("strike", 9))
_CUBE = (0, 95, 135, 175, 215, 255)
_FIRST_16 = (
    0x000000, 0xCD0000, 0x00CD00, 0xCDCD00, 0x0000EE, 0xCD00CD, 0x00CDCD, 0xE5E5E5,
    0x7F7F7F, 0xFF0000, 0x00FF00, 0xFFFF00, 0x5C5CFF, 0xFF00FF, 0x00FFFF, 0xFFFFFF,
)  # fmt: skip


def rgb(colour: int) -> int | None:
    """0xrrggbb of a colour; None where there is none."""
    if colour == NO_COLOUR:
        return None
    if colour & TRUE_COLOUR:
        return colour & 0xFFFFFF
    if colour < 16:
        return _FIRST_16[colour]
    if colour >= 232:
        return (8 + (colour - 232) * 10) * 0x010101
    red, green, blue = (colour - 16) // 36, (colour - 16) // 6 % 6, (colour - 16) % 6
    return _CUBE[red] << 16 | _CUBE[green] << 8 | _CUBE[blue]


@lru_cache(maxsize=4096)
def restyled(style: Style, parameters: str) -> Style:
    """After `CSI <parameters> m`. What is not known changes nothing."""
    if not _PARAMETERS.fullmatch(parameters):
        return style
    fields = iter(parameters.split(";"))
    for field in fields:
        style = _restyled(style, [_number(part) for part in field.split(":")], fields)
    return style


def _restyled(style: Style, codes: list[int], following: Iterator[str]) -> Style:
    code = codes[0]
    if code == 0:
        return DEFAULT
    if code == 4 and codes[1:] == [0]:
        return style._replace(underline=False)
    if code == 21:
        return style._replace(underline=True)
    if code in _SET:
        return style._replace(**{_SET[code]: True})
    if code in _UNSET:
        return style._replace(**dict.fromkeys(_UNSET[code], False))
    return _recoloured(style, codes, following)


def _recoloured(style: Style, codes: list[int], following: Iterator[str]) -> Style:
    code = codes[0]
    if code in (38, 48, 58):
        colour = _colour_after(codes[1:], following)
        if colour is None or code == 58:
            return style
        return style._replace(foreground=colour) if code == 38 else style._replace(background=colour)
    for first, offset in ((30, 0), (90, 8)):
        if first <= code < first + 8:
            return style._replace(foreground=code - first + offset)
        if first + 10 <= code < first + 18:
            return style._replace(background=code - first - 10 + offset)
    if code == 39:
        return style._replace(foreground=NO_COLOUR)
    return style._replace(background=NO_COLOUR) if code == 49 else style


def _colour_after(inside: list[int], following: Iterator[str]) -> int | None:
    """`38:5:n`, `38:2:r:g:b`, `38:2::r:g:b`, `38;5;n`, `38;2;r;g;b`."""
    if inside:
        values = [*inside[:1], *inside[-3:]] if inside[0] == 2 and len(inside) > 4 else inside
    else:
        kind = _number(next(following, ""))
        values = [kind, *(_number(next(following, "")) for _ in range({2: 3, 5: 1}.get(kind, 0)))]
    match values:
        case [5, index] if index < 256:
            return index
        case [2, red, green, blue] if max(red, green, blue) < 256:
            return TRUE_COLOUR | red << 16 | green << 8 | blue
    return None


def _number(text: str) -> int:
    return min(int(text), 9999) if text.isdigit() and text.isascii() else 0


@lru_cache(maxsize=4096)
def sgr(style: Style) -> str:
    """The sequence that sets exactly this style, whatever was set before."""
    codes = ["0", *(str(code) for name, code in _CODES if getattr(style, name))]
    codes += _colour_codes(style.foreground, 30) + _colour_codes(style.background, 40)
    return f"\x1b[{';'.join(codes)}m"


def _colour_codes(colour: int, first: int) -> list[str]:
    if colour == NO_COLOUR:
        return []
    if colour & TRUE_COLOUR:
        return [f"{first + 8};2;{colour >> 16 & 255};{colour >> 8 & 255};{colour & 255}"]
    if colour < 8:
        return [str(first + colour)]
    return [str(first + 52 + colour)] if colour < 16 else [f"{first + 8};5;{colour}"]
