"""The two WebSockets: one sandbox, or many."""

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from litestar import Router, WebSocket, websocket
from litestar.di import NamedDependency
from litestar.params import FromPath, SkipValidation

from contracts.access import Principal
from contracts.errors import ClocheError
from infra.observing.about import about
from services.gateway.desk import Desk
from services.gateway.live.asked import asked_for
from services.gateway.live.dividing import open_divided
from services.gateway.live.ending import Left, TakesNothing
from services.gateway.live.frames import SubscribeFrame
from services.gateway.live.live import Live, Lives
from services.gateway.live.opening import Opened, open_events, open_sandbox
from services.gateway.live.pulse import Beat, NoPulse
from services.gateway.live.session import Session
from services.gateway.live.socket import Socket
from services.gateway.problems import named_in
from services.gateway.routes.params import TheDesk

logger = logging.getLogger(__name__)

Asked = WebSocket[Principal, Any, Any]
TheLive = SkipValidation[NamedDependency[Live]]


@websocket("/sandboxes/{sandbox:str}")
async def follow_sandbox(socket: Asked, desk: TheDesk, live: TheLive, sandbox: FromPath[str]) -> None:
    """One sandbox: its history from the cursor, then what happens; orders about it."""
    opening = partial(open_sandbox, desk, live, socket.user, sandbox)
    await _serve(socket, desk, live, live.pulse, opening)


@websocket("/events")
async def follow_events(socket: Asked, desk: TheDesk, lives: SkipValidation[NamedDependency[Lives]]) -> None:
    """All that somebody may see, by filters that can be changed meanwhile."""
    if not desk.cloche.is_divided:
        live = lives.first
        await _serve(socket, desk, live, live.pulse, lambda wanted: open_events(desk, live, socket.user, wanted))
        return
    opening = partial(open_divided, desk, lives, socket.user)
    await _serve(socket, desk, lives.first, NoPulse(), opening)


async def _serve(
    asked: Asked, desk: Desk, live: Live, pulse: Beat, opening: Callable[[SubscribeFrame], Awaitable[Opened]]
) -> None:
    socket = Socket(asked)
    try:
        with live.place("websocket", asked.user):
            opened = await opening(asked_for(asked.query_params))
            await socket.accept()
            await socket.tell(opened.connected)
            session = Session(socket, opened.source, asked.user, desk.settings.gateway, pulse)
            await session.run(opened.selection, opened.cursor)
    except ClocheError as error:
        await socket.refuse(error)
    except (Left, TakesNothing):
        return
    except Exception:
        with about(named_in(asked.path_params)):
            logger.exception("%s failed", asked.scope["path"])
        raise


ROUTER = Router("/ws", route_handlers=[follow_sandbox, follow_events])
