"""Who may use a route, asked of every one that there is: a new one is among them by itself."""

from collections.abc import AsyncIterator
from typing import NamedTuple

import httpx
import pytest
import pytest_asyncio
from litestar import Litestar
from litestar.routes import HTTPRoute

from contracts.access import Role, Scope
from services.gateway.access.door import OPEN, PRIVATE
from services.gateway.routes.access import LOOKING
from services.gateway.web import GIVEN, ROUTERS, provided
from tests.gateway.rig import Gateway, gateway_in

pytestmark = pytest.mark.asyncio(loop_scope="module")

THEIRS, OURS = "theirs", "ours"


class Operation(NamedTuple):
    method: str
    path: str


class Named(dict[str, str]):
    """A value for whatever an address names."""

    def __missing__(self, key: str) -> str:
        return THEIRS if "sandbox" in key else "x"


def private() -> list[Operation]:
    """Every operation that takes a token, with values for all that its address names."""
    app = Litestar(ROUTERS, dependencies=provided(dict.fromkeys(GIVEN)), openapi_config=None, logging_config=None)
    routes = [route for route in app.routes if isinstance(route, HTTPRoute)]
    found = [
        Operation(method, route.path_format.format_map(Named()))
        for route in routes
        for method in sorted(route.methods - {"OPTIONS"})
    ]
    return [each for each in found if each.path.startswith(PRIVATE) and each.path not in OPEN]


OPERATIONS = private()
OF_SANDBOXES = [each for each in OPERATIONS if THEIRS in each.path]
CHANGING = [each for each in OPERATIONS if each.method not in LOOKING and "/session" not in each.path]
"""A session is everybody's own."""
BEGIN = Operation("POST", "/api/v1/session")
"""The token is in what it brings."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Gateway]:
    async with gateway_in(tmp_path_factory.mktemp("gateway")) as found:
        await found.cloche.create({"labels": {"team": "theirs"}}, id=THEIRS)
        await found.cloche.create({"labels": {"team": "ours"}}, id=OURS)
        yield found


async def head(gateway: Gateway) -> int:
    """How many events there are of the sandbox that is not theirs, but for what its health says."""
    sandbox = await gateway.cloche.sandbox(THEIRS)
    return len([event async for event in sandbox.events() if not event.head.type.startswith("health.")])


async def asked(client: httpx.AsyncClient, operation: Operation) -> tuple[int, str]:
    answer = await client.request(operation.method, operation.path)
    return answer.status_code, answer.json()["code"]


async def test_there_are_routes_to_be_asked_of() -> None:
    assert len(OPERATIONS) > 25
    assert len(CHANGING) > 10
    assert set(CHANGING) < set(OPERATIONS)


SCOPES = [
    Scope(labels={"team": "ours"}),
    Scope(sandboxes=(OURS,)),
    Scope(projects=("ours",)),
    Scope(projects=("ours",), sandboxes=(THEIRS,)),
]


@pytest.mark.parametrize("role", [Role.OPERATOR, Role.ADMIN])
@pytest.mark.parametrize("scope", SCOPES)
async def test_a_sandbox_out_of_scope_is_not_there_on_any_route(gateway: Gateway, role: Role, scope: Scope) -> None:
    before = await head(gateway)
    async with gateway.client(gateway.token(role, scope, subject=f"{role}-scoped")) as client:
        for operation in OF_SANDBOXES:
            assert await asked(client, operation) == (404, "SANDBOX_NOT_FOUND"), operation
    assert await head(gateway) == before


async def test_a_viewer_changes_nothing_on_any_route(gateway: Gateway) -> None:
    before = await head(gateway)
    async with gateway.client(gateway.token(Role.VIEWER)) as client:
        for operation in CHANGING:
            assert await asked(client, operation) == (403, "FORBIDDEN"), operation
    assert await head(gateway) == before


async def test_nobody_gets_in_without_a_token_on_any_route(gateway: Gateway) -> None:
    async with httpx.AsyncClient(base_url=gateway.url) as client:
        refused = [await asked(client, operation) for operation in OPERATIONS if operation != BEGIN]
    assert refused[0] == (401, "UNAUTHENTICATED")
    # Whoever has tried too often is not even answered that.
    assert set(refused) <= {(401, "UNAUTHENTICATED"), (429, "TOO_MANY_REQUESTS")}
