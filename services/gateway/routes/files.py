"""The files of a sandbox, listed at any moment."""

from typing import Annotated

from litestar import Router, get
from litestar.params import QueryParameter

from contracts.files import MAX_PATH
from contracts.history import FilesAt, ListFilesAt
from contracts.http.files import FileInfo, FilePage
from contracts.manifest import Entry
from services.gateway.routes.params import At, Found, Limit, TheDesk
from services.gateway.routes.recorded import ask_files, sequence_of


@get("/files", operation_id="listFiles", summary="List files")
async def files(
    desk: TheDesk,
    found: Found,
    path: Annotated[str, QueryParameter(max_length=MAX_PATH, description="A directory. Absent = the workspace.")] = "",
    path_bytes: Annotated[
        str | None,
        QueryParameter(max_length=MAX_PATH, description="Instead of `path`, for a name that is not UTF-8: base64."),
    ] = None,
    recursive: Annotated[bool, QueryParameter(description="Also what is in its directories.")] = False,
    at: At = None,
    after: Annotated[str | None, QueryParameter(max_length=MAX_PATH, description="`next` of the page before.")] = None,
    limit: Limit = 1000,
) -> FilePage:
    """By their names. As the log has them, so also of a sandbox that is gone, and without a trace in it."""
    query = ListFilesAt(
        sandbox=found.id,
        at=await sequence_of(desk, found, at),
        path=path,
        path_bytes=path_bytes,
        recursive=recursive,
        after=after,
        limit=limit,
    )
    page: FilesAt = await ask_files(desk, query, FilesAt)
    return FilePage(
        sequence=page.sequence,
        workspace=page.workspace,
        entries=tuple(map(_info, page.entries)),
        next=page.next,
        lacking=page.lacking,
    )


def _info(entry: Entry) -> FileInfo:
    return FileInfo(
        path=entry.path,
        path_bytes=entry.path_bytes,
        kind=entry.kind,
        size=entry.size,
        mode=entry.mode,
        mtime_us=entry.mtime_us,
        sha256=entry.sha256,
        symlink=entry.symlink,
        symlink_bytes=entry.symlink_bytes,
        kept=entry.blob is not None,
    )


ROUTER = Router("/sandboxes/{sandbox_id:str}", route_handlers=[files], tags=["files"])
