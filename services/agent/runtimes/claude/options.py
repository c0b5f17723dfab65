"""What `options` of an `agent.start` may say to this runtime."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from contracts.errors import Invalid
from contracts.message import JsonObject
from contracts.spec import EnvName, EnvValue, InsidePath

Line = Annotated[str, Meta(min_length=1, max_length=500, pattern=r"^[^\x00\n]*$")]
ToolName = Annotated[str, Meta(min_length=1, max_length=500, pattern=r"^[^\x00\n,]*$")]
Words = Annotated[str, Meta(max_length=100_000, pattern=r"^[^\x00]*$")]


class Subagent(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    description: Words
    prompt: Words
    tools: Annotated[tuple[ToolName, ...], Meta(max_length=100)] | None = None
    model: Line | None = None


class ClaudeOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    cli: InsidePath | None = None
    """The program inside. Absent = the one that the node brings, or else `claude` of the image."""
    system_prompt: Words | None = None
    """Instead of Claude Code's own."""
    append_system_prompt: Words | None = None
    """After Claude Code's own."""
    tools: Annotated[tuple[ToolName, ...], Meta(max_length=100)] | None = None
    """The only ones that there are. Absent = all."""
    disallowed_tools: Annotated[tuple[ToolName, ...], Meta(max_length=100)] = ()
    setting_sources: tuple[Literal["user", "project", "local"], ...] = ()
    """Settings inside could turn off the hooks by which approvals are asked for, so none are read unless named here."""
    partial_messages: bool = True
    thinking_tokens: Annotated[int, Meta(ge=1024, le=1_000_000)] | None = None
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    fallback_model: Line | None = None
    max_steps: Annotated[int, Meta(ge=1)] | None = None
    """Answers of the model within one turn."""
    agents: Annotated[dict[Line, Subagent], Meta(max_length=50)] = {}
    env: Annotated[dict[EnvName, EnvValue], Meta(max_length=100)] = {}


def parse(options: JsonObject) -> ClaudeOptions:
    """Raises `Invalid` naming the field."""
    try:
        return msgspec.convert(options, ClaudeOptions)
    except msgspec.ValidationError as error:
        raise Invalid(f"options: {error}") from error
