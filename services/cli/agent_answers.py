"""Which approval somebody means."""

from collections.abc import Sequence
from typing import NamedTuple

from contracts.errors import Invalid
from infra.client.agent import Asked
from services.cli.agent_question import arguments_of


class Chosen(NamedTuple):
    asked: Asked
    rest: str
    """Of the words that were given."""


def chosen(pending: Sequence[Asked], words: str) -> Chosen:
    """The one that the first word names, by its id or the beginning of it; the only one where it names none.

    Raises `Invalid` when that is none, or several.
    """
    first, _, rest = words.partition(" ")
    named = [asked for asked in pending if first and asked.request.approval.startswith(first)]
    if len(named) == 1:
        return Chosen(named[0], rest.strip())
    if not pending:
        raise Invalid("nothing waits for an answer")
    if named or len(pending) > 1:
        ids = ", ".join(asked.request.approval for asked in pending)
        raise Invalid(f"{len(pending)} tool calls wait for an answer, say which: {ids}")
    return Chosen(pending[0], words)


def require_seen(asked: Asked, name: str) -> None:
    """Leave for what is not shown whole is given by its whole id. Raises `Invalid` for anything else."""
    approval = asked.request.approval
    if name != approval and (missing := arguments_of(asked.request).missing):
        raise Invalid(f"not all of it was shown ({missing}): look with `pending {approval}`, then approve {approval}")


def named(pending: Sequence[Asked], approval: str | None) -> Asked:
    """As `chosen`, for an id that stands by itself. One that is named must be there."""
    if approval is None:
        return chosen(pending, "").asked
    found = [asked for asked in pending if asked.request.approval.startswith(approval)]
    if len(found) != 1:
        raise Invalid(
            f"{len(found)} pending approvals begin with {approval!r}"
            if found
            else f"no approval {approval!r} is pending: see `cloche agent pending`"
        )
    return found[0]
