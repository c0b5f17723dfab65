"""A node with a real gateway, and clients of it."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from contracts.access import Principal, Role, Scope
from infra.client import Cloche
from infra.ports import free_port
from infra.settings import Settings
from infra.tokens.keys import own_key
from infra.tokens.tokens import issue
from tests.services.node import Node, Service

TOKEN_S = 3600


class Gateway:
    """`python -m services.gateway` beside a node, on a port of its own that it keeps over restarts."""

    def __init__(self, node: Node, cloche: Cloche, port: int) -> None:
        self.node = node
        self.cloche = cloche
        self.port = port
        self.service = node.services["gateway"]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def settings(self) -> Settings:
        return self.node.settings

    def token(self, role: Role = Role.OPERATOR, scope: Scope | None = None, subject: str = "tester") -> str:
        now = int(time.time())
        principal = Principal(subject=subject, role=role, scope=scope or Scope(), expires_at=now + TOKEN_S)
        return issue(own_key(self.settings), principal, now=now)

    @asynccontextmanager
    async def client(self, token: str | None = None) -> AsyncIterator[httpx.AsyncClient]:
        headers = {"authorization": f"Bearer {token or self.token()}"}
        async with httpx.AsyncClient(base_url=self.url, headers=headers, timeout=120) as client:
            yield client


@asynccontextmanager
async def gateway_in(data: Path, *also: str, **values: str) -> AsyncIterator[Gateway]:
    """`also`: services that an ordinary node of the tests has not."""
    port = free_port()
    node = Node(data, CLOCHE_GATEWAY_PORT=str(port), **values)
    node.services |= {name: Service(name, data, values) for name in also}
    node.services["gateway"] = Service("gateway", data, {"CLOCHE_GATEWAY_PORT": str(port), **values})
    async with node, node.connect() as cloche:
        yield Gateway(node, cloche, port)
