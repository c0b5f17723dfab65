"""One host: `cloche up` runs it with a server of its own, `cloche node` against servers that are run elsewhere."""

from collections.abc import Callable

from msgspec.structs import replace

from contracts.errors import Invalid
from contracts.node_names import ANYBODY
from infra.embedded.server import EmbeddedServer
from infra.embedded.store import prepare
from infra.exclusive import exclusive
from infra.own_process import settle
from infra.provisioning import provision_realms
from infra.realms import parts
from infra.settings import Settings
from services.cli.joining import check_joined
from services.cli.running import Running
from services.cli.supervision import supervise_all

ADVICE = "see `cloche doctor`, end it with `cloche down`"


async def serve(settings: Settings, ready: Callable[[Running], None]) -> None:
    """Run the embedded server and the node until cancelled. What runs in sandboxes goes on without it."""
    if settings.url is not None:
        raise Invalid("`cloche up` runs the embedded server; for the one at CLOCHE_URL use `cloche node`")
    # Whoever wants to see one partition alone finds a node that serves them all.
    # And whoever has the store has the name, also when it came here by a backup.
    settings = replace(settings, partition=None, take_over=ANYBODY)
    settle()
    prepare(settings.data)
    with exclusive(settings.data, "up", ADVICE):
        async with EmbeddedServer.of(settings) as server:
            await provision_realms(settings)
            await supervise_all(settings, server.url, ready)


async def join(settings: Settings, ready: Callable[[Running], None], tell: Callable[[str], None]) -> None:
    """Run the node against the servers at `settings.url` until cancelled. What runs in sandboxes goes on without it.

    Raises `Invalid` or `Unavailable` saying what is missing: the address, credentials, servers, provisioning.
    """
    url, *_ = [await check_joined(part, tell) for part in parts(settings)]
    settle()
    prepare(settings.data)
    with exclusive(settings.data, "up", ADVICE):
        await supervise_all(settings, url, ready)
