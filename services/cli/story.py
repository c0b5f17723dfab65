"""Why a sandbox is in its state, as sentences, each with the events behind it."""

import datetime

from msgspec import Struct


class Sentence(Struct, frozen=True, kw_only=True):
    """The text may hold what came out of a sandbox: it is to be escaped where it is shown."""

    text: str
    """Goes on after the sandbox's name: `was stopped`."""
    sequences: tuple[int, ...]
    """Of the log: the events that say so."""
    at: datetime.datetime
    asked_by: str | None = None
    """The id of the command that asked for it."""
    last_output: str = ""
    """What was written in a sandbox before it died."""


class Advice(Struct, frozen=True, kw_only=True):
    do: str
    """A command line."""
    why: str


class Story(Struct, frozen=True, kw_only=True):
    sandbox: str
    status: str | None
    """None for a sandbox that was never made."""
    health: str
    headline: Sentence
    sentences: tuple[Sentence, ...]
    """What happened, oldest first."""
    earlier: int
    """How many events of such a kind there are before and between them."""
    next: tuple[Advice, ...]
