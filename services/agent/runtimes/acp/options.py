"""What a run of this runtime may be told in `options`."""

import shlex
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from contracts.commands.command import Argument
from contracts.errors import Invalid
from contracts.message import JsonObject
from contracts.spec import EnvName, EnvValue, InsidePath


class Options(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    command: Annotated[tuple[Argument, ...], Meta(min_length=1, max_length=1000)] | Argument
    """The agent's program and its arguments, as the sandbox has it; a string is split as a shell would."""
    env: Annotated[dict[EnvName, EnvValue], Meta(max_length=500)] = {}
    cwd: InsidePath | None = None
    """Where it works. Absent = the workspace."""
    mode: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    """One of the agent's own modes."""

    @property
    def argv(self) -> tuple[str, ...]:
        """Raises ValueError for quotes that do not match."""
        return tuple(shlex.split(self.command)) if isinstance(self.command, str) else self.command


def read(options: JsonObject) -> Options:
    """Raises `Invalid`, with the path of what is wrong."""
    try:
        chosen = msgspec.convert(options, Options)
        is_there = bool(chosen.argv)
    except ValueError as error:
        raise Invalid(f"options of the runtime acp: {error}") from error
    if not is_there:
        raise Invalid("options of the runtime acp: `command` is empty")
    return chosen
