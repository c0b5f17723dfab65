"""One command of a sandbox, as it can be asked for."""

from contracts import subjects
from contracts.errors import Invalid
from infra.log.view import LogView


async def command_filters(view: LogView, sandbox: str, exec_id: str) -> list[str]:
    """What its events match. Raises `Invalid` for a command that is not there, `Unavailable`."""
    filters = subjects.events_of(sandbox, family="command", scope=exec_id)
    if await view.last(filters[0]) is None:
        raise Invalid(f"sandbox {sandbox!r} has no command {exec_id!r}: see `cloche events {sandbox}`")
    return filters
