"""How many cells a character takes."""

import re
import unicodedata
from functools import lru_cache

from pyte.screens import wcwidth

WIDE = 2
NARROW = 1
MARK = 0
"""Combines with the character before it."""
NOTHING = -1
"""Never shown: it has no form, or it would turn or hide what stands around it."""

_NEVER = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))
_SELECTORS = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]")


@lru_cache(maxsize=65536)
def width(character: str) -> int:
    category = unicodedata.category(character)
    if category in _NEVER or _SELECTORS.match(character):
        return NOTHING
    cells = wcwidth(character)
    if cells == 0:
        return MARK if category.startswith("M") else NOTHING
    return WIDE if cells == 2 else NARROW


def all_narrow(text: str) -> bool:
    return text.isascii() or all(width(character) == NARROW for character in set(text))
