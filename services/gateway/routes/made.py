"""The answer to whoever asked for a new sandbox."""

from litestar import Response

from contracts.http.sandboxes import Accepted
from contracts.state import SandboxState
from services.gateway.routes.waiting import done


def made(sandbox: str, command: str, state: SandboxState | None) -> Response[Accepted]:
    """201 with the sandbox where it is known to run, else 202."""
    place = {"location": f"/api/v1/sandboxes/{sandbox}"}
    if state is not None:
        return done(state, 201, place)
    return Response(Accepted(sandbox=sandbox, command=command), status_code=202, headers=place)
