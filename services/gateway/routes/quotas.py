"""What projects and principals use, beside what they may."""

from typing import Annotated

from litestar import Router, get
from litestar.params import QueryParameter

from contracts.access import Principal, Role
from contracts.quotas import Account, GetQuotas, Kind, QuotaList
from infra.client.quotas import quotas_of_all
from services.gateway.routes.params import Asked, Limit, TheDesk

LONGEST_NAME = 200


@get("/quotas", operation_id="getQuotas", summary="Quotas and their use")
async def get_quotas(
    request: Asked,
    desk: TheDesk,
    after: Annotated[
        str | None,
        QueryParameter(
            pattern=r"^(project|principal):.*$",
            max_length=LONGEST_NAME + 20,
            description="Continue behind this one, as `project:web`.",
        ),
    ] = None,
    limit: Limit = 1000,
) -> QuotaList:
    """Sandboxes, CPUs and memory that are held, and what agents spent, beside the limits.

    Everything for an admin who may see every sandbox; for anybody else their own, and those of the token's projects.
    """
    buses = [part.bus for part in desk.cloche.parts.values()]
    found = [await quotas_of_all(buses, query) for query in _visible(request.user, after, limit)]
    return QuotaList(
        quotas=tuple(each for answer in found for each in answer.quotas),
        more=any(answer.more for answer in found),
        applied_sequence=max(answer.applied_sequence for answer in found),
    )


def _visible(principal: Principal, after: str | None, limit: int) -> list[GetQuotas]:
    if not principal.role.covers(Role.ADMIN) or not principal.scope.everything:
        own = GetQuotas(kind=Kind.PRINCIPAL, name=principal.subject)
        return [own, *(GetQuotas(kind=Kind.PROJECT, name=project) for project in principal.scope.projects)]
    kind, _, name = (after or "").partition(":")
    return [GetQuotas(after=Account(Kind(kind), name) if after else None, limit=limit)]


ROUTER = Router("/", route_handlers=[get_quotas], tags=["health"])
