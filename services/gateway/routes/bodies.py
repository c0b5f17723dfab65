"""Bodies of requests: JSON, read as strictly as everything else that people type."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from litestar import Request
from litestar.dto import AbstractDTO, DTOConfig
from litestar.exceptions import InternalServerException
from litestar.typing import FieldDefinition
from msgspec import Struct

from contracts import codec
from contracts.access import Principal
from contracts.errors import Invalid, UnsupportedMediaType
from services.gateway.desk import DESK, Desk

JSON = "application/json"


class ApiRequest(Request[Principal, Any, Any]):
    async def body(self) -> bytes:
        """Where nothing was sent, nothing was left out that has no default."""
        return await super().body() or b"{}"

    async def stream(self) -> AsyncGenerator[bytes, None]:
        """Raises `Invalid` for a client that went away, also for one that never says so: no failure of ours."""
        desk: Desk = self.app.state[DESK]
        slow_s = desk.settings.gateway.slow_s
        chunks = super().stream()
        try:
            while (chunk := await _next(chunks, slow_s)) is not None:
                yield chunk
        except InternalServerException as error:
            raise Invalid("the connection was lost before everything had come") from error
        except TimeoutError:
            raise Invalid(f"nothing came for {slow_s:g} s, and not everything had come") from None


async def _next(chunks: AsyncGenerator[bytes, None], seconds: float) -> bytes | None:
    """Raises TimeoutError."""
    async with asyncio.timeout(seconds):
        return await anext(chunks, None)


class StrictBody(AbstractDTO[Struct]):
    """Every argument called `data` is decoded by `contracts.codec`: Litestar itself would take "7" for a number."""

    config = DTOConfig()

    def decode_bytes(self, value: bytes) -> Any:
        """Raises `Invalid` naming the field, `UnsupportedMediaType`."""
        kind, _ = self.asgi_connection.content_type  # type: ignore[attr-defined]
        length = self.asgi_connection.headers.get("content-length", "")
        if kind != JSON and not (kind == "" and length in ("", "0")):
            raise UnsupportedMediaType(f"{kind[:80]!r} came: the body is {JSON}")
        return self.read(value)

    def read(self, body: bytes) -> Any:
        """Raises `Invalid`."""
        return codec.decode(body, self.asgi_connection.route_handler.parsed_data_field.annotation)

    @classmethod
    def create_for_field_definition(
        cls, field_definition: FieldDefinition, handler_id: str, backend_cls: Any = None
    ) -> None:
        """There is nothing to be made."""

    @classmethod
    def create_openapi_schema(cls, field_definition: FieldDefinition, handler_id: str, schema_creator: Any) -> Any:  # noqa: ARG003
        return schema_creator.for_field_definition(field_definition)

    @classmethod
    def generate_field_definitions(cls, model_type: Any) -> Any:  # noqa: ARG003
        yield from ()

    @classmethod
    def detect_nested_field(cls, field_definition: FieldDefinition) -> bool:  # noqa: ARG003
        return False
