"""What is in directories: in order, by pages, without ever following a link."""

import base64
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NamedTuple

from contracts import codec
from contracts.errors import ClocheError, Invalid, Unavailable
from contracts.events.file import EntryKind
from contracts.files import FileEntry, FileListing, GlobFiles, ListFiles, StatFile
from contracts.spelling import spell
from infra.files.directories import next_name, sorted_names
from infra.files.paths import MAX_NAME, Names, fits, shown
from infra.files.patterns import PathPattern
from infra.files.trouble import told
from infra.files.workspace import Workspace

MAX_PAGE_BYTES = 700_000
"""Of one answer: names can be long."""
PATIENCE_S = 3.0
"""For one page, less than any asker waits: it ends early, and says where to go on."""
AT_A_TIME = 64
"""Entries of a directory that are looked at while it is open."""

LONGEST_NAME = b"x" * MAX_NAME

Wanted = Callable[[bytes], bool]


class Child(NamedTuple):
    names: Names
    """Beneath the directory that is gone through."""
    info: os.stat_result
    link: bytes | None


class Page(NamedTuple):
    entries: tuple[FileEntry, ...]
    next: str | None
    """The cursor of what follows; None at the end."""
    too_deep: int
    """Directories that were not gone into."""


def stat_file(workspace: Workspace, request: StatFile) -> FileEntry:
    """Raises `SandboxFileNotFound`, `SandboxPathDenied`."""
    names = workspace.names(request.path, request.path_bytes)
    with told(workspace.shown(names), Unavailable):
        return stat_names(workspace, names, follow=request.follow)


def stat_names(workspace: Workspace, names: Names, *, follow: bool = True) -> FileEntry:
    with workspace.found(names, follow=follow) as descriptor:
        info = os.fstat(descriptor)
        link = os.readlink(b"", dir_fd=descriptor) if stat.S_ISLNK(info.st_mode) else None
    return entry_of(workspace, names, info, link)


def list_files(workspace: Workspace, request: ListFiles) -> FileListing:
    """Raises `Invalid` for what is not a directory, or a cursor that is none, and what `stat_file` raises."""
    names = workspace.names(request.path, request.path_bytes)
    with told(workspace.shown(names), Unavailable):
        page = page_of(workspace, names, recursive=request.recursive, after=request.after, limit=request.limit)
    return _listing(workspace, names, page)


def glob_files(workspace: Workspace, request: GlobFiles) -> FileListing:
    """Raises `Invalid` for a bad pattern, and what `list_files` raises."""
    names = workspace.names(request.path, request.path_bytes)
    pattern = PathPattern(request.pattern)
    with told(workspace.shown(names), Unavailable):
        page = page_of(
            workspace, names, recursive=True, after=request.after, limit=request.limit, wanted=pattern.matches
        )
    return _listing(workspace, names, page)


def _listing(workspace: Workspace, names: Names, page: Page) -> FileListing:
    return FileListing(
        path=workspace.shown(names),
        entries=page.entries,
        truncated=page.next is not None,
        next=page.next,
        too_deep=page.too_deep,
    )


def page_of(
    workspace: Workspace,
    names: Names,
    *,
    recursive: bool,
    after: str | None,
    limit: int,
    wanted: Wanted | None = None,
) -> Page:
    """Sorted by names; a directory stands before what is in it."""
    found: list[FileEntry] = []
    deadline = time.monotonic() + PATIENCE_S
    size, last, too_deep = 0, None, 0
    for child in walk(workspace, names, recursive=recursive, after=_cursor(after)):
        if len(found) == limit or size > MAX_PAGE_BYTES or (last is not None and time.monotonic() > deadline):
            return Page(tuple(found), last, too_deep)
        last = base64.b64encode(b"/".join(child.names)).decode()
        too_deep += recursive and stat.S_ISDIR(child.info.st_mode) and not may_be_entered((*names, *child.names))
        if wanted is not None and not wanted(b"/".join(child.names)):
            continue
        entry = entry_of(workspace, (*names, *child.names), child.info, child.link)
        found.append(entry)
        size += len(codec.encode(entry))
    return Page(tuple(found), None, too_deep)


def _cursor(after: str | None) -> Names:
    try:
        return tuple(base64.b64decode(after, validate=True).split(b"/")) if after else ()
    except ValueError:
        raise Invalid("`after` is not the `next` of a page before") from None


def walk(workspace: Workspace, names: Names, *, recursive: bool, after: Names = ()) -> Iterator[Child]:
    """Everything beneath a directory that comes after `after`, in order.

    No descriptor is held between two directories, so depth costs none. A directory that goes away, cannot be looked
    into, is a mount point or is too deep has no entries. Raises what opening `names` raises.
    """
    waiting = [_children(workspace, names, (), after)]
    while waiting:
        child = next(waiting[-1], None)
        if child is None:
            waiting.pop()
            continue
        if child.names > after:
            yield child
        is_entered = recursive and stat.S_ISDIR(child.info.st_mode) and may_be_entered((*names, *child.names))
        if is_entered and child.names >= after[: len(child.names)]:
            waiting.append(_quietly(workspace, names, child.names, after))


def may_be_entered(directory: Names) -> bool:
    """Whether everything that can be in it can be asked for."""
    return fits((*directory, LONGEST_NAME))


def _quietly(workspace: Workspace, top: Names, names: Names, after: Names) -> Iterator[Child]:
    with suppress(OSError, ClocheError):
        yield from _children(workspace, top, names, after)


def _children(workspace: Workspace, top: Names, names: Names, after: Names) -> Iterator[Child]:
    """Sorted. What comes before `after` and is not on its way is not even looked at, and the rest only when wanted."""
    is_on_the_way = after[: len(names)] == names and len(after) > len(names)
    least: bytes | None = after[len(names)] if is_on_the_way else b""
    while least is not None:
        with workspace.directory((*top, *names)) as directory:
            found = sorted_names(directory, least)
        for first in range(0, len(found), AT_A_TIME):
            with workspace.directory((*top, *names)) as directory:
                some = [_child(directory, (*names, name)) for name in found[first : first + AT_A_TIME]]
            yield from (child for child in some if child is not None)
        least = next_name(found)


def _child(directory: int, names: Names) -> Child | None:
    try:
        info = os.stat(names[-1], dir_fd=directory, follow_symlinks=False)
        link = os.readlink(names[-1], dir_fd=directory) if stat.S_ISLNK(info.st_mode) else None
    except OSError:
        return None
    return Child(names, info, link)


def entry_of(workspace: Workspace, names: Names, info: os.stat_result, link: bytes | None) -> FileEntry:
    path, path_bytes = shown(names, workspace.inside)
    symlink = None if link is None else spell(link)
    return FileEntry(
        path=path,
        path_bytes=path_bytes,
        kind=kind_of(info.st_mode),
        size=info.st_size if stat.S_ISREG(info.st_mode) else 0,
        mode=stat.S_IMODE(info.st_mode) & 0o777,
        mtime_us=info.st_mtime_ns // 1000,
        symlink=symlink and symlink.text,
        symlink_bytes=symlink and symlink.encoded,
    )


def kind_of(mode: int) -> EntryKind:
    if stat.S_ISREG(mode):
        return EntryKind.FILE
    if stat.S_ISDIR(mode):
        return EntryKind.DIRECTORY
    return EntryKind.SYMLINK if stat.S_ISLNK(mode) else EntryKind.OTHER
