"""`backup`, `restore`: the whole store as one file."""

import asyncio
import os
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar

import typer

from contracts.errors import Invalid
from contracts.keyring import short
from contracts.streams import LOG_STREAM
from infra.backup.contents import FILES, Backup
from infra.backup.looking import look
from infra.backup.putting_back import settings_of
from infra.configuration import CONFIG_FILE, load
from infra.realms import one_part
from infra.settings import Settings
from infra.verify import keys
from services.cli import show
from services.cli.backing_up import RestoredBackup, back_up, put_back
from services.cli.measures import counted, size_in_words
from services.cli.progress_line import ProgressLine
from services.cli.words import say

Json = Annotated[bool, typer.Option("--json", help="One JSON object.")]


def register(app: typer.Typer) -> None:
    app.command("backup")(backup)
    app.command("restore")(restore)


def backup(
    wanted: Annotated[Path, typer.Argument(metavar="DIR|FILE", help="A DIR gets a file named for node and time.")],
    json: Json = False,
) -> None:
    """Write the whole store to one file, while everything runs: the log, orders that wait, contents of files, imports.

    With it go the keys of audit and gateway, passwords of the bus, credentials and settings. So THE FILE IS A SECRET:
    only its owner can read it, and whoever has it can sign as this node. Workspaces are not in it: `cloche recover`
    makes them again from the log. The file has its name only once it is whole.
    """
    with _Progress("backing up") as progress:
        taken = _run(back_up(one_part(load(os.environ)), wanted.expanduser().absolute(), progress.tell))
    if json:
        show.json_line(taken)
        return
    print(taken.file)
    say(f"{_told(taken)}\nit holds private keys and passwords: keep it like one")


def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Of `cloche backup`.")],
    accept_loss: Annotated[
        bool, typer.Option("--accept-loss", help="Also where more is proven here than the backup has.")
    ] = False,
    with_settings: Annotated[
        bool | None, typer.Option("--settings/--no-settings", help="Whether its cloche.toml is put back, too.")
    ] = None,
    given_keys: Annotated[
        list[str] | None,
        typer.Option("--key", metavar="KEY|FILE", help="Only if signed by it, as `cloche audit keys` has it."),
    ] = None,
    json: Json = False,
) -> None:
    """Put a backup back, into a store that holds nothing, while no node runs. Then `cloche up`, and `cloche verify`.

    Every byte of the file is checked first. Keys, passwords and settings that are there already stay. What was written
    after the backup is gone: where the audit of this data directory can prove that there was more, it is refused, and
    with `--accept-loss` that proof is set aside and kept.

    Streams get the settings of this version, whatever the file says. All else in it is believed: RESTORE ONLY WHAT YOU
    WOULD RUN. Orders that wait in it are obeyed at the next `up`, its keys sign, and its settings could run programs:
    so these are asked for by name. `--key` says whose file it must be.
    """
    backup = _run(asyncio.to_thread(look, file.expanduser()))
    _require_signature(backup, [key for given in given_keys or () for key in keys.read(given)])
    settings = _settings(backup, with_settings)
    with _Progress("restoring") as progress:
        work = put_back(
            one_part(settings), backup, progress.tell,
            partitions=settings.partitions, accept_loss=accept_loss, with_settings=bool(with_settings),
        )  # fmt: skip
        done = _run(work)
    if json:
        show.json_line(done)
    else:
        _print(done)


def _require_signature(backup: Backup, trusted: list[str]) -> None:
    """Raises `Invalid`."""
    if trusted and backup.signed_by not in trusted:
        by = "nobody" if backup.signed_by is None else backup.signed_by
        raise Invalid(f"{backup.file} is signed by {by}, and by no key that was named", field="key")


def _settings(backup: Backup, wanted: bool | None) -> Settings:
    """Those that will count. Raises `Invalid` where it has to be said whether the file's do."""
    settings = load(os.environ)
    found = settings_of(one_part(settings), backup)
    if found is None or wanted is False:
        return settings
    if wanted is None:
        raise Invalid(
            f"{backup.file} has settings, which may run programs and open directories of this machine: --settings puts"
            f" them back, --no-settings leaves them out; to read them: tar -xOf FILE {FILES}/{CONFIG_FILE}"
        )
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / CONFIG_FILE).write_bytes(found)
        return load({**os.environ, "CLOCHE_CONFIG": str(Path(place) / CONFIG_FILE)})


def _print(done: RestoredBackup) -> None:
    print(f"restored {_told(done.backup)}, as of {done.backup.made_at:%Y-%m-%d %H:%M:%S} UTC")
    if done.set_aside is not None:
        say(f"what was proven here before is kept in {done.set_aside}")


def _told(backup: Backup) -> str:
    log = next((each for each in backup.streams if each.stream == LOG_STREAM), None)
    events = counted(0 if log is None else log.messages, "event")
    signed = "not signed" if backup.signed_by is None else f"signed by {short(backup.signed_by)}"
    return f"{events} up to sequence {backup.last_sequence}, {size_in_words(backup.bytes)}, {signed}"


T = TypeVar("T")


def _run(work: Coroutine[Any, Any, T]) -> T:
    """Raises `Invalid` where a disk or a directory refuses."""
    try:
        return asyncio.run(work)
    except OSError as error:
        raise Invalid(f"{error.filename or 'the disk'}: {error.strerror or error}") from error


class _Progress:
    """One line for each stream."""

    def __init__(self, words: str) -> None:
        self._words = words
        self._lines: dict[str, ProgressLine] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for line in self._lines.values():
            line.clear()

    def tell(self, what: str, done: int, whole: int) -> None:
        self._lines.setdefault(what, ProgressLine(f"{self._words} {what}")).at(done, max(whole, done))
