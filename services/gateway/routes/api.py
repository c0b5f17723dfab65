"""Every route of the REST API."""

from litestar import Router
from litestar.di import Provide

from services.gateway.routes import (
    agents,
    commands,
    contents,
    events,
    exports,
    files,
    keeping,
    lifecycle,
    outputs,
    quotas,
    sandboxes,
    states,
    vitals,
)
from services.gateway.routes.access import found, may_do
from services.gateway.routes.bodies import ApiRequest, StrictBody

ROUTER = Router(
    "/api/v1",
    route_handlers=[
        each.ROUTER
        for each in (
            sandboxes,
            lifecycle,
            keeping,
            commands,
            outputs,
            events,
            agents,
            files,
            contents,
            states,
            vitals,
            exports,
            quotas,
        )
    ],
    dependencies={"found": Provide(found)},
    guards=[may_do],
    dto=StrictBody,
    return_dto=None,
    request_class=ApiRequest,
    security=[{"token": []}, {"session": []}],
)
