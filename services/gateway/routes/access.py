"""Who may do what with which sandbox, for every route at once: none can forget to ask."""

from typing import Any

from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler

from contracts.access import Principal, Role
from infra.client.sandbox import Sandbox
from services.gateway.desk import DESK, Desk, require
from services.gateway.routes.params import Asked, SandboxParam

LOOKING = frozenset({"GET", "HEAD", "OPTIONS"})


async def may_do(connection: ASGIConnection[Any, Principal, Any, Any], _: BaseRouteHandler) -> None:
    """A guard, before anything of the request is read. To look takes a viewer, to change anything an operator.

    Raises `Forbidden`, and where the address names a sandbox what `Desk.sandbox` raises.
    """
    needed = Role.VIEWER if connection.scope.get("method") in LOOKING else Role.OPERATOR
    require(connection.user, needed)
    name = connection.path_params.get("sandbox_id")
    if name is not None:
        desk: Desk = connection.app.state[DESK]
        connection.state[name] = await desk.sandbox(connection.user, name, needed)


async def found(request: Asked, sandbox_id: SandboxParam) -> Sandbox:
    """The sandbox that the guard let through."""
    sandbox: Sandbox = request.state[sandbox_id]
    return sandbox
