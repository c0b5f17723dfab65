"""A file, a directory or a link, as one line."""

import datetime
import stat

from contracts.events.file import EntryKind
from contracts.files import FileEntry
from contracts.manifest import Entry
from infra.words.escaping import printable

_KINDS = {EntryKind.FILE: "-", EntryKind.DIRECTORY: "d", EntryKind.SYMLINK: "l"}


def entry_line(entry: Entry | FileEntry) -> str:
    mode = _KINDS.get(entry.kind, "?") + stat.filemode(entry.mode)[1:]
    return f"{mode} {entry.size:>12} {_time(entry.mtime_us):<19} {entry_name(entry, entry.path)}"


def entry_name(entry: Entry | FileEntry, name: str) -> str:
    """`name`, with what shows which kind it is."""
    if entry.kind == EntryKind.SYMLINK:
        return f"{printable(name)} -> {printable(entry.symlink or '')}"
    return printable(name) + ("/" if entry.kind == EntryKind.DIRECTORY else "")


def _time(micros: int | None) -> str:
    if micros is None:
        return ""
    try:
        when = datetime.datetime.fromtimestamp(micros / 1_000_000, tz=datetime.UTC)
    except (ValueError, OverflowError, OSError):
        return "?"
    return when.strftime("%Y-%m-%d %H:%M:%S")
