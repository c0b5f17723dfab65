"""What a run of this runtime may be told in `options`."""

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from contracts.commands.agent import StartAgent
from contracts.commands.command import Argument
from contracts.errors import Invalid
from contracts.message import JsonObject

DIALECT = "openai"
"""Of a model whose name says none."""


class Options(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    python: Annotated[Argument, Meta(min_length=1)] = "python3"
    """The image's Python that has the OpenHands SDK, 3.12 or newer."""
    stream: bool = True
    """Words are told as they come."""
    max_steps: Annotated[int, Meta(ge=1, le=100_000)] = 500
    """Of one turn."""
    llm: JsonObject = {}
    """More arguments of the SDK's `LLM`: base_url, temperature, num_retries, input_cost_per_token … Without a base_url
    the sandbox's LLM_BASE_URL, OPENAI_BASE_URL or ANTHROPIC_BASE_URL holds."""


def read(options: JsonObject) -> Options:
    """Raises `Invalid`, with the path of what is wrong."""
    try:
        return msgspec.convert(options, Options)
    except msgspec.ValidationError as error:
        raise Invalid(f"options of the runtime openhands: {error}") from error


def model_of(model: str | None) -> str:
    """As the SDK names models. Raises `Invalid` for none."""
    if not model:
        raise Invalid("the runtime openhands needs a model, such as openai/gpt-5.6 or anthropic/claude-sonnet-5")
    return model if "/" in model else f"{DIALECT}/{model}"


def check(order: StartAgent) -> None:
    read(order.options)
    model_of(order.model)
