"""What Litestar describes, without what says nothing or says it oddly."""

from typing import Any

from contracts.schema import Document

NOTHING: dict[str, Any] = {"deprecated": False, "allowEmptyValue": False, "allowReserved": False, "headers": {}}
BOUNDS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "default"})
NULL = {"type": "null"}


def tidied(node: Any) -> Any:
    """The same, for a reader."""
    if isinstance(node, list):
        return [tidied(each) for each in node]
    if not isinstance(node, dict):
        return node
    if _is_only_a_reference(node):
        return dict(node["allOf"][0])
    kept = {key: tidied(each) for key, each in node.items() if key not in NOTHING or each != NOTHING[key]}
    if "in" in kept and "schema" in kept:
        kept["schema"] = _of_parameter(kept["schema"])
    return kept


def _is_only_a_reference(node: Document) -> bool:
    inner = node.get("allOf")
    return len(node) == 1 and isinstance(inner, list) and len(inner) == 1 and set(inner[0]) == {"$ref"}


def _of_parameter(schema: Document) -> Document:
    """It is there or it is not: an address has no null. It is described outside of its schema."""
    rest = {key: value for key, value in schema.items() if key not in ("oneOf", "description")}
    choices = [each for each in schema.get("oneOf", []) if each != NULL]
    if len(choices) == 1:
        rest = {**choices[0], **rest}
    elif choices:
        rest["oneOf"] = choices
    return {key: _whole(value) if key in BOUNDS else value for key, value in rest.items()}


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value
