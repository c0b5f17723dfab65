"""`files`: look at and change what is in a sandbox's workspace, without running anything in it."""

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path, PurePosixPath
from typing import Annotated, TypeVar

import typer

from contracts.errors import Invalid, SandboxFileNotFound
from contracts.events.file import EntryKind
from contracts.files import MAX_WRITE_CHARACTERS, FileContent, FileEntry, FileRenamed, GrepResult, TruncatedBy
from contracts.payload import unpack
from contracts.transfers import TransferDone
from infra.client.files import Files
from infra.words.escaping import printable
from services.cli import commands_history, show
from services.cli.entry_line import entry_line
from services.cli.passthrough import STDOUT, write_all
from services.cli.session import connected
from services.cli.words import say

HELP = """Look at and change what is in a sandbox's workspace.

A path is relative to the workspace (`src/a.py`), absolute as the sandbox sees it (`/workspace/src/a.py`), or begins
with `~`, the workspace (in quotes, or the shell puts your own home there). Nothing runs inside, so a stopped or paused
sandbox will do. Every call is on the log: see `cloche events SANDBOX --type tool`.
"""
MOST_READ = 4 * MAX_WRITE_CHARACTERS + 1
"""Bytes of standard input: more than that is refused, whatever it is."""
STOPPED_BY = {
    "matches": "there are more: see --limit",
    "bytes": "there are more than fit into one answer: look in one PATH, or with --files",
    "time": "not all was searched, for it takes long: look in one PATH, or with --files",
}

SandboxArgument = Annotated[str, typer.Argument(metavar="SANDBOX")]
PathArgument = Annotated[str, typer.Argument(metavar="PATH")]
FromHere = Annotated[str, typer.Argument(metavar="[PATH]", help="Where to begin.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object a line.")]

Result = TypeVar("Result")

group = typer.Typer(help=HELP, no_args_is_help=True, rich_markup_mode=None, suggest_commands=False)


def register(app: typer.Typer) -> None:
    commands_history.register(group)
    app.add_typer(group, name="files")


def ask(sandbox_id: str, work: Callable[[Files], Awaitable[Result]]) -> Result:
    async def go() -> Result:
        async with connected() as cloche:
            return await work((await cloche.sandbox(sandbox_id)).files)

    return asyncio.run(go())


def each(sandbox_id: str, work: Callable[[Files], AsyncIterator[FileEntry]], tell: Callable[[FileEntry], None]) -> None:
    async def go() -> None:
        async with connected() as cloche:
            async for entry in work((await cloche.sandbox(sandbox_id)).files):
                tell(entry)

    asyncio.run(go())


@group.command()
def read(
    sandbox_id: SandboxArgument,
    path: PathArgument,
    offset: Annotated[int, typer.Option(help="The first line to show.", min=1)] = 1,
    limit: Annotated[int, typer.Option(help="How many lines.", min=1, max=1_000_000)] = 2000,
    number: Annotated[bool, typer.Option("--number", "-n", help="With line numbers.")] = False,
    json: Json = False,
) -> None:
    """Show lines of a file. An image or another binary file is written out as it is, if it is small."""
    found = ask(sandbox_id, lambda files: files.read(path, offset=offset, limit=limit))
    if json:
        show.json_line(found)
        return
    write_all(STDOUT, _numbered(found) if number else unpack(found.content, found.encoding))
    _say_what_is_left(found)


def _say_what_is_left(found: FileContent) -> None:
    if found.truncated_by == TruncatedBy.BYTES and not unpack(found.content, found.encoding).endswith(b"\n"):
        say(f"cloche: line {found.first_line} is too long, and was cut: `cloche files get` has all of it")
    elif found.truncated:
        say(f"cloche: {found.lines} of {found.total_lines} lines; go on with --offset {found.next_offset}")
    elif not found.lines and (found.first_line or 1) > 1:
        say(f"cloche: it has only {found.total_lines} lines")


def _numbered(found: FileContent) -> bytes:
    lines = unpack(found.content, found.encoding).splitlines(keepends=True)
    return b"".join(b"%6d  %s" % (number, line) for number, line in enumerate(lines, found.first_line or 1))


@group.command()
def write(
    sandbox_id: SandboxArgument,
    path: PathArgument,
    content: Annotated[str | None, typer.Argument(help="Standard input unless given.")] = None,
    append: Annotated[bool, typer.Option("--append", "-a", help="At the end, instead of replacing it.")] = False,
    mode: Annotated[str | None, typer.Option(help="Permission bits, such as 755.")] = None,
    json: Json = False,
) -> None:
    """Write a file, with the directories on its way. At once, so nobody sees it half; large files: `put`."""
    data = sys.stdin.buffer.read(MOST_READ) if content is None else os.fsencode(content)
    bits = None if mode is None else _mode(mode)
    written = ask(sandbox_id, lambda files: files.write(path, data, append=append, mode=bits))
    _tell(written, f"{written.path}: {written.size} bytes", json=json)


def _mode(text: str) -> int:
    if not re.fullmatch("0?[0-7]{1,3}", text):
        raise Invalid(f"--mode {text!r} is not three octal digits: try 644 or 755")
    return int(text, 8)


@group.command()
def edit(
    sandbox_id: SandboxArgument,
    path: PathArgument,
    old: Annotated[str, typer.Argument(metavar="OLD")],
    new: Annotated[str, typer.Argument(metavar="NEW")],
    replace_all: Annotated[bool, typer.Option("--all", help="Everywhere; else it must be there exactly once.")] = False,
    json: Json = False,
) -> None:
    """Replace an exact text in a file."""
    edited = ask(sandbox_id, lambda files: files.edit(path, old, new, replace_all=replace_all))
    _tell(edited, f"{edited.path}:{edited.first_line}: {edited.replacements} replaced", json=json)


@group.command("ls")
def list_files(
    sandbox_id: SandboxArgument,
    path: FromHere = ".",
    at: commands_history.At = None,
    recursive: Annotated[bool, typer.Option("--recursive", "-r", help="All that is beneath, too.")] = False,
    json: Json = False,
) -> None:
    """List a directory, or show a file. As it is now, or with --at as it was at any sequence of the log."""
    if at is not None:
        commands_history.ls(sandbox_id, "" if path == "." else path, at, recursive, json)
        return
    each(sandbox_id, lambda files: _listed(files, path, recursive=recursive), show.json_line if json else _line)


async def _listed(files: Files, path: str, *, recursive: bool) -> AsyncIterator[FileEntry]:
    """Of a file, the file itself."""
    try:
        async for entry in files.list(path, recursive=recursive):
            yield entry
    except Invalid:
        entry = await files.stat(path)
        if entry.kind == EntryKind.DIRECTORY:
            raise
        yield entry


@group.command("glob")
def glob_files(
    sandbox_id: SandboxArgument,
    pattern: Annotated[str, typer.Argument(help="`*` and `?` within a name, `**` over directories, {a,b}, [a-z].")],
    path: FromHere = ".",
    json: Json = False,
) -> None:
    """Find files by pattern: `cloche files glob SB '**/*.py'`."""
    tell: Callable[[FileEntry], None] = show.json_line if json else _path
    each(sandbox_id, lambda files: files.glob(pattern, path), tell)


@group.command()
def grep(
    sandbox_id: SandboxArgument,
    pattern: Annotated[str, typer.Argument(help="A regular expression, in RE2's syntax.")],
    path: FromHere = ".",
    ignore_case: Annotated[bool, typer.Option("--ignore-case", "-i")] = False,
    files_like: Annotated[str | None, typer.Option("--files", help="Only in files like this: '*.py'.")] = None,
    context: Annotated[int, typer.Option("--context", "-C", help="Lines around each.", min=0, max=20)] = 0,
    limit: Annotated[int, typer.Option(help="At most so many matches.", min=1, max=2000)] = 500,
    json: Json = False,
) -> None:
    """Find lines by a regular expression. Exit code 1 where there are none."""

    def work(files: Files) -> Awaitable[GrepResult]:
        return files.grep(pattern, path, ignore_case=ignore_case, files=files_like, context=context, limit=limit)

    found = ask(sandbox_id, work)
    for match in found.matches:
        if json:
            show.json_line(match)
            continue
        for number, line in enumerate(match.before, match.line - len(match.before)):
            _print_line(f"{match.path}-{number}-{line}")
        _print_line(f"{match.path}:{match.line}:{match.text}")
        for number, line in enumerate(match.after, match.line + 1):
            _print_line(f"{match.path}-{number}-{line}")
    if found.truncated:
        say(f"cloche: {STOPPED_BY.get(found.truncated_by or '', 'there are more')}")
    raise typer.Exit(0 if found.matches else 1)


def _print_line(line: str) -> None:
    """Tabs are as they were."""
    print("\t".join(printable(part) for part in line.split("\t")))


@group.command("stat")
def stat_file(
    sandbox_id: SandboxArgument,
    path: PathArgument,
    link: Annotated[bool, typer.Option("--link", help="A symbolic link itself, not what it leads to.")] = False,
    json: Json = False,
) -> None:
    """What a file is: kind, permission bits, size."""
    entry = ask(sandbox_id, lambda files: files.stat(path, follow=not link))
    (show.json_line if json else _line)(entry)


@group.command()
def mkdir(
    sandbox_id: SandboxArgument,
    path: PathArgument,
    json: Json = False,
) -> None:
    """Make a directory, with those on its way."""
    made = ask(sandbox_id, lambda files: files.mkdir(path))
    _tell(made, made.path, json=json)


@group.command("rm")
def remove(
    sandbox_id: SandboxArgument,
    paths: Annotated[list[str], typer.Argument(metavar="PATH...")],
    recursive: Annotated[bool, typer.Option("--recursive", "-r", help="A directory with all that is in it.")] = False,
    json: Json = False,
) -> None:
    """Remove files, links or directories, one after the other."""

    async def work(files: Files) -> None:
        for path in paths:
            removed = await files.remove(path, recursive=recursive)
            _tell(removed, f"{removed.path}: {removed.entries} removed", json=json)

    ask(sandbox_id, work)


@group.command("mv")
def move(
    sandbox_id: SandboxArgument,
    path: PathArgument,
    to: Annotated[str, typer.Argument(metavar="TO")],
    overwrite: Annotated[bool, typer.Option("--force", "-f", help="Replace what is there.")] = False,
    json: Json = False,
) -> None:
    """Move a file or a directory. Into TO where that is a directory, else to be TO, in directories made for it."""

    async def work(files: Files) -> FileRenamed:
        return await files.move(path, await _target(files, to, PurePosixPath(path).name), overwrite=overwrite)

    moved = ask(sandbox_id, work)
    _tell(moved, moved.path, json=json)


@group.command()
def put(
    sandbox_id: SandboxArgument,
    local: Annotated[Path, typer.Argument(metavar="LOCAL", exists=True, help="A file or a directory here.")],
    path: FromHere = ".",
    transfer: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Any name: with the same one, an interrupted copy to PATH goes on."),
    ] = None,
    json: Json = False,
) -> None:
    """Copy a file or a tree into the sandbox. Into PATH where that is a directory, else as PATH."""

    async def work(files: Files) -> TransferDone:
        # A directory that is there may be the beginning of this very copy.
        is_meant = transfer is not None and path != "."
        target = path if is_meant else await _target(files, path, local.resolve().name)
        return await files.put(local, target, transfer=transfer)

    done = ask(sandbox_id, work)
    _tell(done, f"{done.path}: {_copied(done)}", json=json)


async def _target(files: Files, path: str, name: str) -> str:
    try:
        entry = await files.stat(path)
    except SandboxFileNotFound:
        return path
    return f"{path.rstrip('/')}/{name}" if entry.kind == EntryKind.DIRECTORY else path


@group.command()
def get(
    sandbox_id: SandboxArgument,
    path: PathArgument,
    local: Annotated[Path, typer.Argument(metavar="[LOCAL]", help="Into it where it is a directory.")] = Path(),
    json: Json = False,
) -> None:
    """Copy a file or a tree out of the sandbox."""
    name = PurePosixPath(path).name or "workspace"
    target = local / (name if name != "~" else "workspace") if local.is_dir() else local
    done = ask(sandbox_id, lambda files: files.get(path, target))
    _tell(done, f"{target}: {_copied(done)}", json=json)


def _copied(done: TransferDone) -> str:
    return f"{done.files} {'file' if done.files == 1 else 'files'}, {done.bytes} bytes"


def _tell(answer: object, line: str, *, json: bool) -> None:
    if json:
        show.json_line(answer)
    else:
        print(printable(line))


def _line(entry: FileEntry) -> None:
    print(entry_line(entry))


def _path(entry: FileEntry) -> None:
    print(printable(entry.path))
