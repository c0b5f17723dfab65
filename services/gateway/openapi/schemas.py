"""Schemas as msgspec itself has them, in the place of what Litestar would guess: they name every bound."""

from typing import Any

from litestar.openapi.spec import Reference, Schema
from litestar.plugins import OpenAPISchemaPlugin
from litestar.typing import FieldDefinition
from msgspec import Struct

SCHEMAS = "#/components/schemas/"


class ContractSchemas(OpenAPISchemaPlugin):
    """Remembers which Structs are referred to."""

    def __init__(self) -> None:
        self.used: list[type[Struct]] = []

    def is_plugin_supported_field(self, field_definition: FieldDefinition) -> bool:
        kind = field_definition.annotation
        return isinstance(kind, type) and issubclass(kind, Struct)

    def to_openapi_schema(self, field_definition: FieldDefinition, schema_creator: Any) -> Schema:  # noqa: ARG002
        kind = field_definition.annotation
        if kind not in self.used:
            self.used.append(kind)
        # Litestar resolves a bare reference in a registry of its own.
        return Schema(all_of=[Reference(ref=f"{SCHEMAS}{kind.__name__}")])
