"""What stands in a script for something that is known only when it is played. Pure."""

import re
import shlex
from collections.abc import Callable, Sequence
from typing import NamedTuple

LONGEST = 20_000
"""Characters that are put in for one name."""
OFTEN = 10
"""Times that something is put in for a name, in one text."""
_NAMED = re.compile(r"\$\{(message|prompt|turn|round)\}")


class Known(NamedTuple):
    message: str
    """The newest that was said to the agent."""
    prompt: str
    turn: int
    """The first of the conversation is 1."""
    round: int
    """Of the innermost `repeat`, from 1 on; 0 outside."""


def fill(text: str, known: Known) -> str:
    """Other names stay as they are: a shell has its own."""
    return _fill(text, known, str)


def fill_command(command: str | Sequence[str], known: Known) -> str | tuple[str, ...]:
    """In a line for the shell, each is one word of it, whatever it is."""
    if isinstance(command, str):
        return _fill(command, known, shlex.quote)
    return tuple(fill(each, known) for each in command)


def _fill(text: str, known: Known, spell: Callable[[str], str]) -> str:
    return _NAMED.sub(lambda found: spell(str(getattr(known, found[1]))[:LONGEST]), text, count=OFTEN)
