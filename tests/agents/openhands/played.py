"""Answers of a model by what it is shown of the conversation.

So it goes on rightly after a turn that was cut off, in another process, or in a later run.
"""

from collections.abc import Sequence

from tests.agents.model_server import Asked, user_texts
from tests.agents.script import Fails, Turn

ASIDE = ("[USER]", "[GUARDIAN]")
"""What is said in the middle of a turn begins with one of these."""


class Played:
    """A player for `ModelServer.play`."""

    def __init__(self) -> None:
        self._turns: list[Sequence[Turn]] = []

    def add(self, *turns: Sequence[Turn]) -> None:
        """The next turns of the conversation, each as the model's answers in it."""
        self._turns += turns

    def __call__(self, asked: Asked) -> Turn:
        turn, answer = _place(asked)
        try:
            return self._turns[turn][answer]
        except IndexError:
            return Fails(400, "invalid_request_error", f"there is no answer {answer} in turn {turn}")


def _place(asked: Asked) -> tuple[int, int]:
    """(turn, answer) that is asked for, from 0."""
    turn, answer = -1, 0
    for message in asked.messages:
        if message["role"] == "assistant":
            answer += 1
        # What begins a turn after one that came to nothing stands in one message with what began that.
        elif begun := sum(not text.startswith(ASIDE) for text in user_texts(message)):
            turn, answer = turn + begun, 0
    return turn, answer
