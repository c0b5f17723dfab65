"""A backup, put back into a store that holds nothing."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec

from contracts.errors import ClocheError, Conflict, Invalid, Unavailable
from infra.backup import archive, files
from infra.backup.contents import ABOUT, FILES, ORDER, STREAMS, About, Backup
from infra.backup.proven import Proven, proven_here, set_aside
from infra.backup.snapshots import put_back
from infra.bus.connection import Bus
from infra.bus.errors import STREAM_NOT_FOUND, ApiError
from infra.settings import CONFIG_FILE, Settings

BLOCK = 512 * 1024

Tell = Callable[[str, int, int], None]


class Restored(NamedTuple):
    files: tuple[str, ...]
    """Of the data directory, that were put back. What was there before was left, but for the audit."""
    set_aside: Path | None
    """Where the audit is now that was here before."""


async def refuse_loss(settings: Settings, backup: Backup, *, accept_loss: bool) -> Proven | None:
    """What is known here to have been in the log. Raises `Conflict` where the backup has less, unless accepted."""
    proven = await asyncio.to_thread(proven_here, settings)
    if proven is None or accept_loss:
        return proven
    if proven.log is not None and proven.log != await asyncio.to_thread(log_of, Path(backup.file)):
        raise Conflict(f"{proven.directory} proves another log than that of {backup.file}: see --accept-loss")
    if proven.sequence > backup.last_sequence:
        raise Conflict(
            f"the log was proven here up to sequence {proven.sequence}, and the backup ends at {backup.last_sequence}:"
            f" what came between would be lost. `--accept-loss` says that this is known"
        )
    return proven


def log_of(path: Path) -> str | None:
    """The name of the log that a backup is of; None where nobody had proven it. Raises `Invalid`, OSError."""
    for member in archive.members(path):
        if member.name == f"{FILES}/{files.AUDIT}/log":
            return member.content.read().decode("utf-8", "replace").strip()
    return None


async def refuse_what_is_there(admin: Bus) -> None:
    """Raises `Conflict` where a stream holds anything, or ever did. Streams that never held anything are removed."""
    empty: list[str] = []
    for name in ORDER:
        try:
            state = (await admin.api(f"STREAM.INFO.{name}"))["state"]
        except ApiError as error:
            if error.number != STREAM_NOT_FOUND:
                raise
            continue
        if state["messages"] or state["last_seq"]:
            raise Conflict(f"{name} holds {state['messages']} messages already: a backup goes into an empty store only")
        empty.append(name)
    for name in empty:
        await admin.api(f"STREAM.DELETE.{name}")


def restore_passwords(settings: Settings, backup: Backup) -> tuple[str, ...]:
    """Of the embedded server, before it is started, where there are none yet. Raises `Invalid`, OSError."""
    return _put(settings, backup, lambda name: name.startswith(f"{files.PASSWORDS}/"))


def restore_files(settings: Settings, backup: Backup, proven: Proven | None) -> Restored:
    """All others. Raises `Invalid`, OSError."""
    aside = set_aside(settings) if proven is not None else None
    elsewhere = (f"{files.PASSWORDS}/", *((CONFIG_FILE,) if settings.url else ()))
    return Restored(_put(settings, backup, lambda name: not name.startswith(elsewhere)), aside)


def _put(settings: Settings, backup: Backup, wanted: Callable[[str], bool]) -> tuple[str, ...]:
    places = {name: files.destination(settings, name) for name in backup.files if wanted(name)}
    fresh = {name: place for name, place in places.items() if not place.exists()}
    for member in archive.members(Path(backup.file)):
        kind, _, name = member.name.partition("/")
        if kind == FILES and name in fresh:
            files.append(fresh[name], member.content.read())
    return tuple(fresh)


async def restore(settings: Settings, admin: Bus, backup: Backup, tell: Tell = lambda *_: None) -> None:
    """Every stream. `backup` has been looked at, so it is whole; the store has been found empty.

    All or none: what was put back before something failed is removed again. Raises `ApiError` with the server's
    reason, `Unavailable`, `Invalid`.
    """
    made: list[str] = []
    try:
        await _restore(settings, admin, backup, tell, made)
    except BaseException:
        for name in made:
            with contextlib.suppress(ClocheError):
                await admin.api(f"STREAM.DELETE.{name}")
        raise


async def _restore(settings: Settings, admin: Bus, backup: Backup, tell: Tell, made: list[str]) -> None:
    waiting = _Members(Path(backup.file))
    sizes = {each.stream: each.bytes for each in backup.streams}
    async for about in waiting.abouts():
        name = about.config["name"]
        if name not in ORDER:
            raise Invalid(f"{backup.file}: {name[:200]!r} is no stream of a backup")
        made.append(name)
        await put_back(
            admin, about, waiting.chunks(partial(_told, tell, name, sizes[name])), replicas=settings.limits.replicas
        )
        await _check(admin, about)


def _told(tell: Tell, name: str, whole: int, done: int) -> None:
    tell(name, done, whole)


async def _check(admin: Bus, about: About) -> None:
    """Raises `Unavailable` where the server has taken less than the backup has."""
    name = about.config["name"]
    state = (await admin.api(f"STREAM.INFO.{name}"))["state"]
    if state["messages"] < about.state["messages"] or state["last_seq"] < about.state["last_seq"]:
        raise Unavailable(
            f"{name}: the server has {state['messages']} messages of {about.state['messages']},"
            f" and ends at {state['last_seq']}, not {about.state['last_seq']}"
        )


class _Members:
    """One pass over the file, read in a thread."""

    def __init__(self, path: Path) -> None:
        self._members = archive.members(path)
        self._next: archive.Member | None = None

    async def abouts(self) -> AsyncIterator[About]:
        """Ask for the chunks of one before the next."""
        await self._advance()
        while self._next is not None:
            if self._next.name.startswith(f"{STREAMS}/") and self._next.name.endswith(f"/{ABOUT}"):
                about = msgspec.json.decode(await asyncio.to_thread(self._next.content.read), type=About)
                await self._advance()
                yield about
            else:
                await self._advance()

    async def chunks(self, done: Callable[[int], None]) -> AsyncIterator[bytes]:
        count = 0
        while self._next is not None and not self._next.name.endswith(f"/{ABOUT}"):
            while chunk := await asyncio.to_thread(self._next.content.read, BLOCK):
                count += len(chunk)
                yield chunk
                done(count)
            await self._advance()

    async def _advance(self) -> None:
        self._next = await asyncio.to_thread(next, self._members, None)
