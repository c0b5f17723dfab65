"""The content of a file: read at any moment, written, removed."""

from typing import Annotated, Any

from litestar import Response, Router, delete, get, put
from litestar.params import QueryParameter

from contracts.errors import RangeNotSatisfiable, SandboxFileNotFound
from contracts.http.files import FileGone, FileStored
from contracts.http.problems import MEDIA_TYPE, Problem
from contracts.spelling import spell
from services.gateway.routes import conditions, kept_content, live_content, storing
from services.gateway.routes.answers import answer
from services.gateway.routes.orders import require_life
from services.gateway.routes.params import Asked, At, Found, IfMatch, IfNoneMatch, IfRange, RangeParam, TheDesk
from services.gateway.routes.ranges import BYTES, OCTETS, attachment, served
from services.gateway.routes.recorded import flushed, has_workspace, path_in, sequence_of
from services.gateway.routes.waiting import done

UNCHANGED = answer(None, "It is what `If-None-Match` names.")
CHANGED = answer(Problem, "It is not what `If-Match` names.", MEDIA_TYPE)


@get(
    "/files/{file_path:path}",
    media_type=OCTETS,
    operation_id="readFile",
    summary="Read a file",
    responses={**BYTES, 304: UNCHANGED},
)
async def read(
    request: Asked,
    desk: TheDesk,
    found: Found,
    at: At = None,
    range_: RangeParam = None,
    if_range: IfRange = None,
    if_none_match: IfNoneMatch = None,
) -> Response[Any]:
    """Its `ETag` is the sha256 of its content. As the log has it, or, where that is not kept, as it lies there now."""
    path = path_in(request.scope)
    try:
        kept = await kept_content.find(desk, found.id, path, await sequence_of(desk, found, at), range_)
    except SandboxFileNotFound:
        if at is not None or not has_workspace(found):
            raise
        live = await live_content.find(desk, found, path)
        try:
            part = range_ if if_range is None else None
            return served(live.cut, live.size, part, attachment(path.rpartition(b"/")[2]))
        except RangeNotSatisfiable as error:
            await live.end(error)
            raise
    headers = {**attachment(path.rpartition(b"/")[2]), "etag": conditions.etag(kept.sha256)}
    if conditions.names(if_none_match, kept.sha256):
        return Response(b"", status_code=304, headers=headers)
    return served(kept.cut, kept.size, range_ if if_range in (None, headers["etag"]) else None, headers)


@put(
    "/files/{file_path:path}",
    status_code=200,
    operation_id="writeFile",
    summary="Write a file",
    request_max_body_size=None,
    responses={201: answer(FileStored, "It is new."), 412: CHANGED},
)
async def write(
    request: Asked,
    desk: TheDesk,
    found: Found,
    mode: Annotated[
        str | None,
        QueryParameter(pattern=r"^[0-7]{3}$", description="Permissions, as in 755. Absent = as they were, or 644."),
    ] = None,
    if_match: IfMatch = None,
    if_none_match: IfNoneMatch = None,
) -> Response[FileStored]:
    """At once: whoever reads it has the old content or the new. The directories on its way are made.

    Of any size that fits on the sandbox's disk, in flat memory: more than 512 KiB with a `Content-Length`.
    """
    require_life(found)
    path = path_in(request.scope)
    # Whoever is refused need not send it all; whoever sends slowly keeps nobody else from the file.
    await conditions.check(desk, found, path, if_match, if_none_match)
    permissions = None if mode is None else int(mode, 8)
    async with storing.arrived(desk, found, path, request, permissions) as arrived, conditions.turn(found.id, path):
        await conditions.check(desk, found, path, if_match, if_none_match)
        stored = await arrived.store()
    sequence = await flushed(desk, found)
    told = FileStored(
        path=spell(path).text, size=stored.size, sha256=stored.sha256, created=stored.created, sequence=sequence
    )
    return done(told, 201 if stored.created else 200, {"etag": conditions.etag(stored.sha256)})


@delete(
    "/files/{file_path:path}",
    status_code=200,
    operation_id="removeFile",
    summary="Remove a file or a directory",
    responses={412: CHANGED},
)
async def remove(
    request: Asked,
    desk: TheDesk,
    found: Found,
    recursive: Annotated[bool, QueryParameter(description="A directory with all that is in it.")] = False,
    if_match: IfMatch = None,
) -> FileGone:
    """A symbolic link is removed itself, never what it leads to. The log keeps what was there."""
    require_life(found)
    path = path_in(request.scope)
    async with conditions.turn(found.id, path):
        await conditions.check(desk, found, path, if_match, None)
        gone = await found.files.remove(path, recursive=recursive)
    return FileGone(path=spell(path).text, entries=gone.entries, sequence=await flushed(desk, found))


ROUTER = Router("/sandboxes/{sandbox_id:str}", route_handlers=[read, write, remove], tags=["files"])
