"""JSON Schemas of arguments and answers, as MCP wants them: an object at the root."""

from typing import Any

import msgspec
from msgspec import Struct

from contracts.errors import Failure
from services.mcp.arguments import Arguments

DEFINITIONS = "#/$defs/{name}"


def input_schema(kind: type[Arguments]) -> dict[str, Any]:
    schema, others = _parts(kind)
    assert not others, "arguments are flat"
    return schema


def output_schema(kind: type[Struct]) -> dict[str, Any]:
    """Of the answer, or of a failure in its place: some clients check that too."""
    schema, others = _parts(kind)
    failure, _ = _parts(Failure)
    either = [{"required": schema.pop("required")}, {"required": ["error"]}]
    schema["properties"] = {**schema["properties"], "error": failure}
    return {**schema, "anyOf": either, **({"$defs": others} if others else {})}


def _parts(kind: type[Struct]) -> tuple[dict[str, Any], dict[str, Any]]:
    _, components = msgspec.json.schema_components([kind], ref_template=DEFINITIONS)
    schema = components.pop(kind.__name__)
    # Of the class, not of the tool.
    return {name: value for name, value in schema.items() if name not in ("title", "description")}, components
