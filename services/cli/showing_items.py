"""What the story of a sandbox is made of: each is one thing that happened, however many events told it.

Texts are as they came out of the sandbox: they are escaped where they are shown.
"""

from msgspec import Struct

from contracts.message import Time


class Item(Struct, frozen=True, kw_only=True, tag_field="kind"):
    sequence: int
    """Of the log: where it began."""
    at: Time


class Lifecycle(Item, tag="sandbox", frozen=True, kw_only=True):
    text: str
    bad: bool = False


class Excerpt(Struct, frozen=True, kw_only=True):
    """The first and the last lines of a text."""

    first: tuple[str, ...] = ()
    left_out: int = 0
    """Lines between them."""
    last: tuple[str, ...] = ()


class Begun(Item, tag="command_begun", frozen=True, kw_only=True):
    """A command, told before its end because something else comes before that."""

    exec: str
    argv: tuple[str, ...]
    asker: str
    by: str = ""
    """Whoever asked, where they have a name."""


class Written(Item, tag="output", frozen=True, kw_only=True):
    """Whole lines of what a command wrote."""

    exec: str
    lines: tuple[str, ...]


class Ran(Item, tag="command", frozen=True, kw_only=True):
    exec: str
    argv: tuple[str, ...]
    asker: str
    outcome: str
    """completed, timed_out, cancelled, rejected, lost; `running` where its end is not told."""
    code: int | None = None
    signal: int | None = None
    cause: str = ""
    duration_ms: float | None = None
    bytes: int = 0
    """Of all that it wrote."""
    output: Excerpt = Excerpt()
    was_begun: bool = False
    """There is a `command_begun` of it before."""
    by: str = ""
    last_sequence: int
    ended_at: Time


class Said(Item, tag="said", frozen=True, kw_only=True):
    who: str
    """agent, thought, prompt, or the name of whoever said it."""
    text: str
    how: str = ""
    """`guides`, `interrupts`, `pauses`, `resumes` or `stops`; empty for what is just said."""
    run: str
    parent: str | None = None


class RunMoved(Item, tag="run", frozen=True, kw_only=True):
    """A run of an agent began, waits, failed, is over."""

    run: str
    text: str
    detail: str = ""
    bad: bool = False
    good: bool = False


class Called(Item, tag="tool_use", frozen=True, kw_only=True):
    call: str
    tool: str
    about: str
    """What it is about, in the tool's own words."""
    run: str
    parent: str | None = None


class Returned(Item, tag="tool_result", frozen=True, kw_only=True):
    call: str
    tool: str
    """Empty where its beginning is not in what is shown."""
    ok: bool
    output: Excerpt
    duration_ms: float | None = None
    follows: bool = True
    """Nothing else was told since the call."""


class Worked(Item, tag="file_tool", frozen=True, kw_only=True):
    """A file operation that was asked for over the bus."""

    tool: str
    path: str
    failure: str = ""
    duration_ms: float


class Asked(Item, tag="asked", frozen=True, kw_only=True):
    approval: str
    what: str
    reason: str = ""


class Answered(Item, tag="answered", frozen=True, kw_only=True):
    approval: str
    what: str
    """What it was about, where that is known."""
    allowed: bool
    by: str
    reason: str = ""
    expired: bool = False
    waited_ms: float | None = None


class Change(Struct, frozen=True, kw_only=True):
    action: str
    path: str
    moved_from: str | None = None
    size: int | None = None
    diff: str = ""


class Touched(Item, tag="files", frozen=True, kw_only=True):
    changes: tuple[Change, ...]
    more: int = 0
    """Changes beside them."""
    last_sequence: int


class Host(Struct, frozen=True, kw_only=True):
    host: str
    port: int
    requests: int = 0
    sent_bytes: int = 0
    received_bytes: int = 0
    failed: int = 0


class Refused(Struct, frozen=True, kw_only=True):
    host: str
    port: int
    reason: str
    count: int = 1


class Reached(Item, tag="network", frozen=True, kw_only=True):
    hosts: tuple[Host, ...] = ()
    denied: tuple[Refused, ...] = ()
    more: int = 0
    last_sequence: int


class Noticed(Item, tag="noticed", frozen=True, kw_only=True):
    """By the guardian, the health monitor, or whoever could not obey an order."""

    who: str
    text: str
    bad: bool = False
    last_output: str = ""
