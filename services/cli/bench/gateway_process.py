"""A gateway for a benchmark's node, in a process of its own."""

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from msgspec import Struct

from contracts.access import Principal, Role
from contracts.errors import Unavailable
from infra.ports import free_port
from infra.settings import Settings
from infra.tokens.keys import own_key
from infra.tokens.tokens import issue

UNLIMITED = "[gateway]\nrequests_per_s = 1000000\nburst = 1000000\n"
"""No limit is to be measured."""
TOKEN_S = 24 * 3600
HERE = "127.0.0.1"


class GatewayProcess(Struct, frozen=True, kw_only=True):
    pid: int
    port: int
    token: str


@asynccontextmanager
async def gateway_process(settings: Settings) -> AsyncIterator[GatewayProcess]:
    """Raises `Unavailable` where it does not start."""
    config = settings.data / "bench-gateway.toml"
    await asyncio.to_thread(config.write_text, UNLIMITED)
    port = free_port()
    given = {"CLOCHE_DATA": str(settings.data), "CLOCHE_CONFIG": str(config), "CLOCHE_GATEWAY_PORT": str(port)}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "services.gateway", env={**os.environ, **given}, stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    try:
        said = await process.stderr.readline()
        if not said.endswith(b": ready\n"):
            raise Unavailable(f"the gateway did not start: {said.decode(errors='replace')}")
        yield GatewayProcess(pid=process.pid, port=port, token=_token(settings))
    finally:
        if process.returncode is None:
            process.terminate()
        await process.communicate()


def _token(settings: Settings) -> str:
    now = int(time.time())
    somebody = Principal(subject="bench", role=Role.OPERATOR, expires_at=now + TOKEN_S)
    return issue(own_key(settings), somebody, now=now)
