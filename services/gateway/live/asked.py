"""What the address of a request says about what is wanted: `?from=7&type=command,agent.message&sandboxes=a,b`.

`types` is taken for `type`, as a `subscribe` frame has it.
"""

from typing import Any

import msgspec
from litestar.datastructures import MultiDict

from contracts.errors import Invalid
from services.gateway.live.frames import SubscribeFrame

MOST_DIGITS = 16


def asked_for(params: MultiDict[Any]) -> SubscribeFrame:
    """Raises `Invalid` naming the parameter."""
    values: dict[str, Any] = {"type": "subscribe", "types": [*_listed(params, "type"), *_listed(params, "types")]}
    values["sandboxes"] = _listed(params, "sandboxes")
    if "from" in params:
        values["from"] = sequence_in(params["from"], "from")
    try:
        return msgspec.convert(values, SubscribeFrame)
    except msgspec.ValidationError as error:
        raise Invalid(f"{error}") from error


def sequence_in(text: str, name: str) -> int:
    """Raises `Invalid`."""
    if not text.isascii() or not text.isdigit() or len(text) > MOST_DIGITS:
        raise Invalid(f"`{name}`: {text[:80]!r} is no sequence of the log")
    return int(text)


def _listed(params: MultiDict[Any], name: str) -> list[str]:
    return [each for text in params.getall(name, []) for each in str(text).split(",") if each]
