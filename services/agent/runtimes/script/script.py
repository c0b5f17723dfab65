"""What a script is: the turns of an agent that does not think, step by step, as people write them."""

from typing import Annotated, Any

from msgspec import Meta, Struct

from contracts.commands.command import Argument
from contracts.files import MAX_WRITE_CHARACTERS, Mode, Path
from contracts.ids import Name

MAX_WORDS = 100_000
MAX_TIME_MS = 86_400_000

Text = Annotated[str, Meta(min_length=1, max_length=MAX_WORDS)]
Parts = Annotated[tuple[Text, ...], Meta(min_length=1, max_length=1000)]
Arguments = Annotated[tuple[Argument, ...], Meta(min_length=1, max_length=1000)]
Milliseconds = Annotated[int, Meta(ge=1, le=MAX_TIME_MS)]
Amount = Annotated[int, Meta(ge=0, le=10**12)]
Content = Annotated[str, Meta(max_length=MAX_WRITE_CHARACTERS)]
Flat = Annotated[dict[Name, str | int | float | bool | None], Meta(max_length=100)]

Steps = tuple[Any, ...]
"""Of `Step`. The verb tells which, so `reading` makes them of what stands there."""


class Step(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Its verb is the name of its first field."""


class Say(Step, frozen=True, kw_only=True):
    say: Text | Parts
    """Several = it comes in parts, as from a model."""


class Think(Step, frozen=True, kw_only=True):
    think: Text


class Run(Step, frozen=True, kw_only=True):
    run: Annotated[Argument, Meta(min_length=1)] | Arguments
    """A line for the shell, or a program and its arguments."""
    timeout_ms: Milliseconds | None = None
    expect: Annotated[int, Meta(ge=0, le=255)] | None = None
    """Any other exit code fails the run. Absent = it goes on, however the command ended."""


class Write(Step, frozen=True, kw_only=True):
    write: Path
    content: Content
    append: bool = False
    mode: Mode | None = None


class Edit(Step, frozen=True, kw_only=True):
    edit: Path
    old: Annotated[str, Meta(min_length=1, max_length=MAX_WORDS)]
    new: Annotated[str, Meta(max_length=MAX_WORDS)]
    all: bool = False
    """Every place; otherwise there has to be one."""


class Read(Step, frozen=True, kw_only=True):
    read: Path
    offset: Annotated[int, Meta(ge=1, le=2**53)] = 1
    limit: Annotated[int, Meta(ge=1, le=2000)] = 2000


class Ask(Step, frozen=True, kw_only=True):
    """A question that any message answers; with `tool`, one that is approved or rejected."""

    ask: Text
    tool: Name | None = None
    input: Flat = {}
    steps: Steps = ()
    """Where it is approved."""
    denied: Steps = ()
    """Where it is rejected."""

    def __post_init__(self) -> None:
        if self.tool is None and (self.input or self.steps or self.denied):
            raise ValueError("`input`, `steps` and `denied` are for a question with a `tool`")


class For(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    ms: Milliseconds | None = None
    file: Path | None = None
    """Until it is there."""
    message: bool = False
    """Until something is said to the agent."""
    timeout_ms: Milliseconds | None = None
    """Then it goes on all the same."""

    def __post_init__(self) -> None:
        if (self.ms is not None) + (self.file is not None) + self.message != 1:
            raise ValueError("wait for one of `ms`, `file` and `message: true`")


class Wait(Step, frozen=True, kw_only=True):
    wait: For


class Fail(Step, frozen=True, kw_only=True):
    """The run ends with `agent.error`."""

    fail: Text


class Spent(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    input_tokens: Amount = 0
    output_tokens: Amount = 0
    cost_usd: Annotated[float, Meta(ge=0, le=1e9)] = 0


class Spend(Step, frozen=True, kw_only=True):
    """As if a model had been asked."""

    spend: Spent


class Repeat(Step, frozen=True, kw_only=True):
    repeat: Annotated[int, Meta(ge=1, le=10_000)]
    steps: Steps


class Subagent(Step, frozen=True, kw_only=True):
    """What it says and does has the call of it as its parent."""

    subagent: Text
    steps: Steps


STEPS: dict[str, type[Step]] = {
    each.__struct_fields__[0]: each
    for each in (Say, Think, Run, Write, Edit, Read, Ask, Wait, Fail, Spend, Repeat, Subagent)
}
"""By verb."""
NESTED = ("steps", "denied")


class Script(Struct, frozen=True, kw_only=True):
    turns: tuple[Steps, ...]
    """The first begins with the prompt, each other with a message."""
    otherwise: Steps = ()
    """Of every turn after these."""
    on_message: Steps = ()
    """What it does when it hears something in the middle of a turn."""

    def turn(self, number: int) -> Steps:
        return self.turns[number] if number < len(self.turns) else self.otherwise
