"""What the CLI asks about tool calls, told apart by where in its output it asks."""

from typing import NamedTuple


class Question(NamedTuple):
    """Models and programs use the id of a call again, or give none: what was answered for one is not for another."""

    offset: int
    """Of the line that asks."""
    call: str
    """As the CLI calls it; may be empty."""

    @property
    def name(self) -> str:
        """What the SDK is told as the call's id, since it passes on nothing else of a question."""
        return f"{self.offset}/{self.call}"


def named(name: str | None) -> Question:
    """Raises `ValueError` for what is no name of a question."""
    offset, _, call = (name or "").partition("/")
    return Question(int(offset), call)
