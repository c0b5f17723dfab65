"""Whether it lives, and whether it can do its work."""

from litestar import Router, get
from msgspec import Struct

from contracts.errors import Unavailable
from services.gateway.routes.params import TheDesk


class Alive(Struct, frozen=True, kw_only=True):
    status: str = "ok"


@get("/healthz", operation_id="isAlive", summary="Alive", tags=["health"])
async def healthz() -> Alive:
    return Alive()


@get("/readyz", operation_id="isReady", summary="Connected to the bus", tags=["health"])
async def readyz(desk: TheDesk) -> Alive:
    if not desk.cloche.is_connected:
        raise Unavailable("not connected to NATS")
    return Alive()


ROUTER = Router("/", route_handlers=[healthz, readyz])
