"""The gateway: the bus for those who do not speak NATS."""

from infra.client import Cloche
from infra.client.partitions import open_partitions
from infra.service import Ready
from infra.settings import Settings
from services.gateway.access.gate import Gate
from services.gateway.desk import Desk
from services.gateway.listening import listening
from services.gateway.serving import serve_web
from services.gateway.starting import end_with_parent, take_start_token
from services.gateway.web import make_web


class GatewayApp:
    name = "gateway"
    has_own_figures = True

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    async def serve(self, ready: Ready) -> None:
        end_with_parent()
        gate = Gate(self._settings, take_start_token())
        async with open_partitions(self._settings, self.name) as partitions:
            web = make_web(Desk(Cloche(partitions), self._settings), gate)
            with listening(self._settings.gateway) as sock:
                await serve_web(web, sock, self._settings.gateway, ready)


def make_app(settings: Settings) -> GatewayApp:
    return GatewayApp(settings)
