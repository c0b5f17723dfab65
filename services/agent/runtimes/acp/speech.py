"""What an agent says and thinks, out of chunks."""

from typing import Literal, NamedTuple

from contracts.events.agent import AgentMessage, AgentThinking

MESSAGE_CHARACTERS = 100_000
PARTS_CHARACTERS = 40_000
"""Told as they come. Who says more at once floods, and is told in whole messages."""

Kind = Literal["message", "thinking"]


class Chunk(NamedTuple):
    """The next part of a message that is not over."""

    kind: Kind
    message: str
    text: str


Told = AgentMessage | AgentThinking | Chunk


class Speech:
    """One message or thought at a time; a chunk of another kind, or of another message, ends it."""

    def __init__(self, run: str, process: str) -> None:
        self._run = run
        self._process = process
        self._kind: Kind | None = None
        self._theirs: str | None = None
        self._message = ""
        self._pieces: list[str] = []
        self._size = 0
        self._count = 0
        self.last = ""
        """The last whole message of the turn."""

    def chunk(self, kind: Kind, theirs: str | None, text: str) -> list[Told]:
        """`theirs` is the agent's own name for the message. One that is too long for an event goes on in another."""
        told: list[Told] = []
        for at in range(0, len(text), MESSAGE_CHARACTERS):
            piece = text[at : at + MESSAGE_CHARACTERS]
            if (kind, theirs) != (self._kind, self._theirs) or self._size + len(piece) > MESSAGE_CHARACTERS:
                told += self.end()
                self._begin(kind, theirs)
            self._pieces.append(piece)
            self._size += len(piece)
            if self._size <= PARTS_CHARACTERS:
                told.append(Chunk(kind, self._message, piece))
        return told

    def _begin(self, kind: Kind, theirs: str | None) -> None:
        self._count += 1
        self._kind, self._theirs, self._message = kind, theirs, f"{self._process}.{self._count}"

    def end(self) -> list[Told]:
        kind, text = self._kind, "".join(self._pieces)
        self._kind, self._pieces, self._size = None, [], 0
        if kind is None:
            return []
        if kind == "thinking":
            return [AgentThinking(run=self._run, text=text, message=self._message)]
        self.last = text
        return [AgentMessage(run=self._run, text=text, message=self._message)]
