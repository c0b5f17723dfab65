"""A backup, put back into a store that holds nothing."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from contracts.errors import ClocheError, Conflict, Invalid, Unavailable
from infra.backup import archive, files
from infra.backup.agreement import ABSENT, refuse_contradictions
from infra.backup.contents import FILES, ORDER, About, Backup, State
from infra.backup.looking import about_in, abouts_of, is_about
from infra.backup.proven import Proven, proven_here, set_aside
from infra.backup.snapshots import put_back
from infra.bus.connection import Bus
from infra.bus.errors import STREAM_NOT_FOUND, ApiError
from infra.bus.provision import Wanted, same
from infra.configuration import CONFIG_FILE
from infra.durable import sync_directory
from infra.settings import Settings

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
            return member.content.whole(BLOCK).decode("utf-8", "replace").strip()
    return None


async def refuse_what_is_there(admin: Bus, *, is_half: bool = False) -> None:
    """Raises `Conflict` where a stream holds anything, or ever did. Streams that never held anything are removed.

    `is_half`: what is there is known to be left by a restore that was killed, and is removed, too.
    """
    empty: list[str] = []
    for name in ORDER:
        try:
            state = (await admin.api(f"STREAM.INFO.{name}"))["state"]
        except ApiError as error:
            if error.number != STREAM_NOT_FOUND:
                raise
            continue
        if not is_half and (state["messages"] or state["last_seq"]):
            raise Conflict(f"{name} holds {state['messages']} messages already: a backup goes into an empty store only")
        empty.append(name)
    for name in empty:
        await admin.api(f"STREAM.DELETE.{name}")


def restore_passwords(settings: Settings, backup: Backup) -> tuple[str, ...]:
    """Of the embedded server, before it is started, where there are none yet. Raises `Invalid`, OSError."""
    return _put(settings, backup, lambda name: name.startswith(f"{files.PASSWORDS}/"))


def settings_of(settings: Settings, backup: Backup) -> bytes | None:
    """Those that it would bring; None where it has none, or there are some here. Raises `Invalid`, OSError."""
    if settings.url or CONFIG_FILE not in backup.files or (settings.data / CONFIG_FILE).exists():
        return None
    members = archive.members(Path(backup.file))
    return b"".join(each.content.whole(files.PIECE_BYTES) for each in members if each.name == f"{FILES}/{CONFIG_FILE}")


def restore_files(settings: Settings, backup: Backup, proven: Proven | None, *, with_settings: bool) -> Restored:
    """All others. Raises `Invalid`, OSError."""
    aside = set_aside(settings) if proven is not None else None
    elsewhere = (f"{files.PASSWORDS}/", *(() if with_settings else (CONFIG_FILE,)))
    return Restored(_put(settings, backup, lambda name: not name.startswith(elsewhere)), aside)


def _put(settings: Settings, backup: Backup, wanted: Callable[[str], bool]) -> tuple[str, ...]:
    places = {name: files.destination(settings, name) for name in backup.files if wanted(name)}
    fresh = {name: place for name, place in places.items() if not place.exists()}
    drafts = {name: files.draft_of(place) for name, place in fresh.items()}
    for draft in drafts.values():
        draft.unlink(missing_ok=True)
    for member in archive.members(Path(backup.file)):
        kind, _, name = member.name.partition("/")
        if kind == FILES and name in drafts:
            files.append(drafts[name], member.content.whole(files.PIECE_BYTES))
    for name, place in fresh.items():
        drafts[name].replace(place)
        sync_directory(place.parent)
    return tuple(fresh)


def ours(backup: Backup, want: Wanted) -> dict[str, dict[str, Any]]:
    """The settings of each stream that is to be put back. Raises `Invalid` where those in the file contradict them."""
    known = {config["name"]: config for config in want.streams}
    abouts = abouts_of(Path(backup.file))
    for about in abouts:
        refuse_contradictions(about, known[about.config["name"]])
    return {name: known[name] for name in (about.config["name"] for about in abouts)}


async def restore(admin: Bus, backup: Backup, configs: dict[str, dict[str, Any]], tell: Tell = lambda *_: None) -> None:
    """Every stream, with `ours`. `backup` has been looked at, so it is whole; the store has been found empty.

    All or none: what was put back before something failed is removed again. Raises `ApiError` with the server's
    reason, `Unavailable`, `Invalid`.
    """
    before = await _streams(admin)
    try:
        await _restore(admin, backup, configs, tell)
        await _refuse_others(admin, configs, before)
    except BaseException:
        for name in await _streams(admin) - before:
            with contextlib.suppress(ClocheError):
                await admin.api(f"STREAM.DELETE.{name}")
        raise


async def _restore(admin: Bus, backup: Backup, configs: dict[str, dict[str, Any]], tell: Tell) -> None:
    waiting = _Members(Path(backup.file))
    sizes = {each.stream: each.bytes for each in backup.streams}
    states: dict[str, State] = {}
    async for about in waiting.abouts():
        name = about.config["name"]
        chunks = waiting.chunks(partial(_told, tell, name, sizes[name]))
        await put_back(admin, configs[name], about.state, chunks)
        states[name] = about.state
    for name, state in states.items():
        await _check(admin, configs[name], state)


async def _streams(admin: Bus) -> set[str]:
    names: set[str] = set()
    while len(names) < (found := await admin.api("STREAM.NAMES", {"offset": len(names)}))["total"]:
        names |= set(found["streams"] or ())
    return names


def _told(tell: Tell, name: str, whole: int, done: int) -> None:
    tell(name, done, whole)


async def _check(admin: Bus, config: dict[str, Any], wanted: State) -> None:
    """Raises `Unavailable` where the server has not taken what the backup has, but for what is too old by now."""
    name = config["name"]
    state = (await admin.api(f"STREAM.INFO.{name}"))["state"]
    is_other = state["messages"] != wanted.messages and not _forgets(config)
    if is_other or state["last_seq"] != wanted.last_seq:
        raise Unavailable(
            f"{name}: the server has {state['messages']} messages of {wanted.messages},"
            f" and ends at {state['last_seq']}, not {wanted.last_seq}"
        )


def _forgets(config: dict[str, Any]) -> bool:
    return bool(config["discard"] == "old" and (config.get("max_age") or config["max_bytes"] >= 0))


async def _refuse_others(admin: Bus, configs: dict[str, dict[str, Any]], before: set[str]) -> None:
    """What a consumer that came along may have done before it was removed. Raises `Invalid`."""
    if others := await _streams(admin) - before - set(configs):
        raise Invalid(f"it makes streams that are no part of a backup: {sorted(others)!r:.200}")
    for name, config in configs.items():
        found = (await admin.api(f"STREAM.INFO.{name}"))["config"]
        different = [field for field in {*config, *ABSENT} if not same(found.get(field), config.get(field))]
        if different:
            raise Invalid(f"{name} was changed while it was put back: {different}", field=f"{name}.{different[0]}")


class _Members:
    """One pass over the file, read in a thread."""

    def __init__(self, path: Path) -> None:
        self._members = archive.members(path)
        self._next: archive.Member | None = None

    async def abouts(self) -> AsyncIterator[About]:
        """Ask for the chunks of one before the next."""
        await self._advance()
        while (member := self._next) is not None:
            about = await asyncio.to_thread(about_in, member) if is_about(member.name) else None
            await self._advance()
            if about is not None:
                yield about

    async def chunks(self, done: Callable[[int], None]) -> AsyncIterator[bytes]:
        count = 0
        while self._next is not None and not is_about(self._next.name):
            while chunk := await asyncio.to_thread(self._next.content.read, BLOCK):
                count += len(chunk)
                yield chunk
                done(count)
            await self._advance()

    async def _advance(self) -> None:
        self._next = await asyncio.to_thread(next, self._members, None)
