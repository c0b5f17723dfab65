"""Which sandboxes somebody may see, page by page."""

from collections.abc import Sequence

import msgspec

from contracts.access import Principal, Scope
from contracts.errors import Invalid
from contracts.http.sandboxes import SandboxPage
from contracts.queries import ListSandboxes
from contracts.state import SandboxState
from services.gateway.desk import Desk

WIDE = 1000
"""Sandboxes of one question, where most may be out of sight."""
MOST_LOOKED_AT = 20_000
"""In one answer. Then it is shorter than it was asked for, and says where to go on."""


def labels_of(typed: Sequence[str]) -> dict[str, str]:
    """From `key=value`. Raises `Invalid`, also for what no sandbox can have: two values of one label."""
    found: dict[str, str] = {}
    for each in typed:
        key, equals, value = each.partition("=")
        if not equals or not key:
            raise Invalid(f"label: {each[:80]!r} is not key=value")
        if found.setdefault(key, value) != value:
            raise Invalid(f"label: {key[:80]!r} is to be both {found[key][:80]!r} and {value[:80]!r}")
    return found


async def listed(desk: Desk, principal: Principal, query: ListSandboxes) -> SandboxPage:
    """As many as were asked for while there are any, however many are out of sight. Raises `Unavailable`."""
    narrowed = _narrowed(query, principal.scope)
    found: list[SandboxState] = []
    after, applied, looked_at = query.after, 0, 0
    while narrowed is not None:
        page = await desk.cloche.sandboxes(msgspec.structs.replace(narrowed, after=after))
        looked_at, applied = looked_at + len(page.sandboxes), page.applied_sequence
        for state in page.sandboxes:
            after = state.sandbox
            if principal.scope.covers(state):
                found.append(state)
            if len(found) == query.limit:
                break
        whole = len(found) == query.limit or looked_at >= MOST_LOOKED_AT
        if whole or not page.more:
            left = page.more or (bool(page.sandboxes) and after != page.sandboxes[-1].sandbox)
            return SandboxPage(sandboxes=tuple(found), applied_sequence=applied, next=after if left else None)
    return SandboxPage(sandboxes=(), applied_sequence=0)


def _narrowed(query: ListSandboxes, scope: Scope) -> ListSandboxes | None:
    """The question, by what the read model itself can tell of a scope; None where nothing can match."""
    if scope.everything:
        return query
    if scope.projects and query.project_id not in (None, *scope.projects):
        return None
    if len(scope.projects) == 1:
        query = msgspec.structs.replace(query, project_id=scope.projects[0])
    if scope.sandboxes or len(scope.projects) > 1:
        return msgspec.structs.replace(query, limit=WIDE)
    if any(query.label.get(key, value) != value for key, value in scope.labels.items()):
        return None
    return msgspec.structs.replace(query, label={**query.label, **scope.labels})
