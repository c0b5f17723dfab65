"""A real gateway beside a bare NATS: whoever stands at the door needs no sandboxes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from infra.ports import free_port
from tests.gateway.rig import Gateway
from tests.services.node import Node, Service


@asynccontextmanager
async def door_in(data: Path, toml: str = "", **values: str) -> AsyncIterator[Gateway]:
    """`toml` are keys of `[gateway]`."""
    data.mkdir(parents=True, exist_ok=True)
    (data / "cloche.toml").write_text(f"[gateway]\n{toml}\n")
    port = str(free_port())
    node = Node(data, CLOCHE_GATEWAY_PORT=port, **values)
    node.services = {"gateway": Service("gateway", data, {"CLOCHE_GATEWAY_PORT": port, **values})}
    async with node, node.connect() as cloche:
        yield Gateway(node, cloche, int(port))


@asynccontextmanager
async def nobody(gateway: Gateway) -> AsyncIterator[httpx.AsyncClient]:
    """A client without a token."""
    async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
        yield client
