"""`If-Match` and `If-None-Match`: a content is named by its sha256."""

import asyncio
import contextlib
import re
import weakref
from collections.abc import AsyncIterator

from contracts.errors import PreconditionFailed, SandboxFileNotFound
from infra.client.sandbox import Sandbox
from services.gateway.desk import Desk
from services.gateway.routes import kept_content
from services.gateway.routes.recorded import sequence_of

_TAG = re.compile(r'(?:W/)?"([^"]*)"')
_turns: weakref.WeakValueDictionary[tuple[str, bytes], asyncio.Lock] = weakref.WeakValueDictionary()


def etag(sha256: str | None) -> str:
    return f'"{sha256 or ""}"'


def names(header: str | None, sha256: str | None) -> bool:
    """Whether this content is among those of the header."""
    if header is None or sha256 is None:
        return False
    return header.strip() == "*" or sha256 in _TAG.findall(header)


@contextlib.asynccontextmanager
async def turn(sandbox: str, path: bytes) -> AsyncIterator[None]:
    """Whoever looks and then changes does so alone, as far as requests to this gateway go."""
    lock = _turns.setdefault((sandbox, path), asyncio.Lock())
    async with lock:
        yield


async def check(desk: Desk, sandbox: Sandbox, path: bytes, if_match: str | None, if_none_match: str | None) -> None:
    """Raises `PreconditionFailed`, and what keeps anybody from looking."""
    if if_match is None and if_none_match is None:
        return
    there = await _content(desk, sandbox, path)
    if if_match is not None and not names(if_match, there):
        raise PreconditionFailed("its content is not the one that If-Match names", sha256=there or "")
    if names(if_none_match, there):
        raise PreconditionFailed("its content is one that If-None-Match names", sha256=there or "")


async def _content(desk: Desk, sandbox: Sandbox, path: bytes) -> str | None:
    """The sha256 of what is there now; none where it is no file. A file whose content is not kept has an empty one."""
    try:
        kept = await kept_content.find(desk, sandbox.id, path, await sequence_of(desk, sandbox, None), None, most=1)
    except SandboxFileNotFound:
        try:
            await sandbox.files.stat(path)
        except SandboxFileNotFound:
            return None
        return ""
    return kept.sha256
