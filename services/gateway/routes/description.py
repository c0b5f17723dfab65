"""The REST API, described by itself."""

from functools import cache

from litestar import Response, Router, get


@cache
def _described() -> bytes:
    # Few ask for it, and it takes a moment.
    from services.gateway.openapi.document import text

    return text().encode()


@get("/api/openapi.json", include_in_schema=False, sync_to_thread=True)
def described() -> Response[bytes]:
    return Response(_described(), media_type="application/vnd.oai.openapi+json;version=3.1")


ROUTER = Router("/", route_handlers=[described])
