"""What a command wrote, byte for byte."""

from collections.abc import AsyncIterator
from enum import StrEnum
from typing import Annotated

from litestar import Router, get
from litestar.params import QueryParameter
from litestar.response import Stream

from contracts.errors import NotFound
from contracts.events import command as facts
from infra.log.choosing import view_of
from services.gateway.routes.params import MOST_SEQUENCE, ExecParam, Found, RangeParam, TheDesk
from services.gateway.routes.ran import on_record
from services.gateway.routes.ranges import BYTES, OCTETS, attachment, served
from services.gateway.routes.written import Written


class OutputStream(StrEnum):
    STDIN = "stdin"
    STDOUT = "stdout"
    STDERR = "stderr"
    PTY = "pty"


@get(
    "/{exec_id:str}/output",
    media_type=OCTETS,
    operation_id="readOutput",
    summary="What a command wrote",
    responses=BYTES,
)
async def output(
    desk: TheDesk,
    found: Found,
    exec_id: ExecParam,
    stream: Annotated[
        OutputStream | None,
        QueryParameter(description="Absent = stdout; of a command with a terminal, all that it showed."),
    ] = None,
    offset: Annotated[int, QueryParameter(ge=0, le=MOST_SEQUENCE, description="From this byte on.")] = 0,
    limit: Annotated[int | None, QueryParameter(ge=0, le=MOST_SEQUENCE, description="So many bytes at most.")] = None,
    range_: RangeParam = None,
) -> Stream:
    """All that the log has of it now, or from an offset on, or what `Range` names of that; also what was typed.

    Nothing is at or behind the end: whoever asks again from there has what was written since.
    """
    view = await view_of(desk.bus, found.id)
    detail = await on_record(view, found.id, exec_id)
    if detail is None:
        raise NotFound(f"the log knows no command {exec_id!r} in sandbox {found.id!r}")
    chosen = facts.Stream(stream or (facts.Stream.PTY if detail.pty else facts.Stream.STDOUT))
    written = Written(view, detail, chosen)
    size = await written.size()
    first = min(offset, size)
    last = size if limit is None else min(first + limit, size)

    def cut(start: int, end: int) -> AsyncIterator[bytes]:
        return written.cut(first + start, first + end)

    return served(cut, last - first, range_, attachment(f"{exec_id}.{chosen}".encode()))


ROUTER = Router("/sandboxes/{sandbox_id:str}/commands", route_handlers=[output], tags=["commands"])
