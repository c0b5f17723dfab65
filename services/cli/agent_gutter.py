"""What marks the words of others: no row of ours begins so, and every row of theirs does."""

import re

GUTTER = "│ "
WIDEST = 12
CONTINUED_ROW = f"  {GUTTER}"
"""Before the further rows of a line that is too long for the window, whoever wrote it."""

_LEAD = re.compile(rf" {{0,{WIDEST}}}{GUTTER}")
_SELECTORS = dict.fromkeys(range(0xFE00, 0xFE10))


def lead_of(line: str) -> str:
    """The gutter of a line, with the blanks before it; empty for a line of ours."""
    found = _LEAD.match(line)
    return "" if found is None else found[0]


def below(lead: str) -> str:
    """A gutter under the first words of a line."""
    return GUTTER.rjust(min(len(lead), WIDEST))


def straight(text: str) -> str:
    """Without what terminals disagree about the width of, so that a row is as long as it seems."""
    return text.expandtabs(4).translate(_SELECTORS)
