"""The application: every route, the words for every error, the description of it all."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from litestar import Litestar
from litestar.datastructures import State
from litestar.di import Provide
from litestar.types import ASGIApp, ControllerRouterHandler, Scope

from services.gateway import metrics, sessions, static
from services.gateway.access.door import Door
from services.gateway.access.gate import Gate
from services.gateway.access.limits import Limits
from services.gateway.access.origins import Origins
from services.gateway.desk import DESK, Desk
from services.gateway.live import sockets, sse
from services.gateway.live.live import Lives
from services.gateway.problems import HANDLERS
from services.gateway.routes import api, description, health

ROUTERS: list[ControllerRouterHandler] = [
    api.ROUTER,
    sse.ROUTER,
    sockets.ROUTER,
    sessions.ROUTER,
    health.ROUTER,
    description.ROUTER,
    metrics.metrics,
    static.page,
]
"""All that there is; `docs/openapi.json` is made from them."""
GIVEN = ("desk", "live", "lives", "limits", "sessions", "pages")
"""What they ask for."""


def make_web(desk: Desk, gate: Gate) -> ASGIApp:
    settings = desk.settings.gateway
    limits, origins = Limits(settings), Origins(settings)
    lives = Lives(desk.cloche)
    given = {
        "lives": lives,
        "limits": limits,
        "sessions": sessions.Sessions(gate, limits, origins),
        "pages": static.Pages(settings.dashboard),
    }
    app = Litestar(
        ROUTERS,
        dependencies=provided(given) | {"desk": _by_sandbox(desk), "live": _by_sandbox(lives)},
        state=State({DESK: desk}),
        exception_handlers=HANDLERS,
        openapi_config=None,
        request_max_body_size=settings.max_body_bytes,
        logging_config=None,
        debug=False,
    )
    return Door(app, gate, origins, limits)


def provided(given: Mapping[str, Any]) -> dict[str, Provide]:
    """What handlers may ask for by name."""
    return {name: Provide(_giving(value), sync_to_thread=False) for name, value in given.items()}


class _Divided(Protocol):
    def of(self, sandbox: str) -> Any: ...


def _by_sandbox(whole: _Divided) -> Provide:
    """Of the partition that has the sandbox which the address names; that of all where it names none."""

    def give(scope: Scope) -> Any:
        named = scope["path_params"]
        sandbox = named.get("sandbox_id") or named.get("sandbox")
        return whole if sandbox is None else whole.of(sandbox)

    return Provide(give, sync_to_thread=False)


def _giving(value: Any) -> Callable[[], Any]:
    return lambda: value
