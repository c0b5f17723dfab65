"""A backup of the store that the settings mean, and putting one back: which server, and what must hold before."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from msgspec import Struct

from contracts.errors import ClocheError, Invalid
from infra import clock
from infra.access import open_as
from infra.backup import putting_back, taking
from infra.backup.contents import Backup
from infra.backup.taking import Tell
from infra.bus.connection import Bus
from infra.bus.provision import wanted
from infra.embedded import endpoint
from infra.embedded.server import EmbeddedServer
from infra.embedded.store import prepare, restoring_file, write
from infra.embedded.users import ADMIN
from infra.exclusive import exclusive
from infra.settings import Settings

ENDING = ".cloche-backup"
DOWN = "a backup is put back while nothing runs: `cloche down` first"


class RestoredBackup(Struct, frozen=True, kw_only=True):
    backup: Backup
    files: tuple[str, ...]
    """That were put back. Others were there already, and stay."""
    set_aside: str | None = None
    """Where the audit is now that was here before: it proves more than the backup has."""


async def back_up(settings: Settings, place: Path, tell: Tell) -> Backup:
    """Into a file, or into a directory under a name that tells node and time. Raises what `take` raises, `Invalid`."""
    path = await asyncio.to_thread(_named, settings, place)
    async with _store(settings) as admin:
        return await taking.take(settings, admin, path, tell)


async def put_back(
    settings: Settings, backup: Backup, tell: Tell, *, partitions: int, accept_loss: bool, with_settings: bool
) -> RestoredBackup:
    """Of a file that was looked at. `partitions` are those that the log is one of.

    Raises `Invalid` where what it holds contradicts this version, `Conflict` where something is there already, or more
    is known here than the backup has, `Unavailable` where a node runs on the data directory or the server refuses.
    """
    configs = putting_back.ours(backup, wanted(settings.limits, (), partitions))
    prepare(settings.data)
    with exclusive(settings.data, "up", DOWN):
        proven = await putting_back.refuse_loss(settings, backup, accept_loss=accept_loss)
        passwords = () if settings.url else await asyncio.to_thread(putting_back.restore_passwords, settings, backup)
        async with _store(settings, is_alone=True) as admin, _begun(settings, admin):
            await putting_back.restore(admin, backup, configs, tell)
            taken = with_settings and settings.url is None
            restored = await asyncio.to_thread(
                putting_back.restore_files, settings, backup, proven, with_settings=taken
            )
    aside = None if restored.set_aside is None else str(restored.set_aside)
    return RestoredBackup(backup=backup, files=(*passwords, *restored.files), set_aside=aside)


@asynccontextmanager
async def _begun(settings: Settings, admin: Bus) -> AsyncIterator[None]:
    """Of our own store: should we be killed, nothing is started on what is half there, and the next restore clears it.

    Raises `Conflict` where something is there that no restore has left.
    """
    mark = restoring_file(settings.data)
    is_half = settings.url is None and mark.exists()
    await putting_back.refuse_what_is_there(admin, is_half=is_half)
    await asyncio.to_thread(write, mark, "")
    try:
        yield
    except BaseException:
        with suppress(ClocheError):
            await putting_back.refuse_what_is_there(admin)
            mark.unlink()
        raise
    mark.unlink()


def _named(settings: Settings, place: Path) -> Path:
    if place.is_dir():
        realm = f"-{settings.realm}" if settings.realm else ""
        return place / f"{settings.node}{realm}-{clock.now():%Y%m%dT%H%M%SZ}{ENDING}"
    if not place.parent.is_dir():
        raise Invalid(f"{place.parent} is no directory")
    return place


@asynccontextmanager
async def _store(settings: Settings, *, is_alone: bool = False) -> AsyncIterator[Bus]:
    """The servers at CLOCHE_URL, the embedded one that runs, or else one that is started for the purpose."""
    if settings.url is None and (is_alone or endpoint.find(settings.data) is None):
        prepare(settings.data)
        async with EmbeddedServer.of(settings, restoring=is_alone), open_as(settings, ADMIN) as admin:
            yield admin
    else:
        async with open_as(settings, ADMIN) as admin:
            yield admin
