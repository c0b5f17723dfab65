"""`files`: look at and change what is in a sandbox's workspace, without running anything in it."""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, TypeVar

import typer

from contracts.errors import Invalid, SandboxFileNotFound
from contracts.events.file import EntryKind
from contracts.files import FileContent, FileEntry, GrepResult
from contracts.payload import unpack
from infra.client.files import Files
from services.cli import commands_history, show
from services.cli.escaping import printable
from services.cli.passthrough import STDOUT, write_all
from services.cli.session import connected
from services.cli.words import say

HELP = """Look at and change what is in a sandbox's workspace.

A path is relative to the workspace (`src/a.py`), absolute as the sandbox sees it (`/workspace/src/a.py`), or begins
with `~`, the workspace. Nothing runs inside, so a stopped or paused sandbox will do. Every call is on the log: see
`cloche events SANDBOX --type tool`.
"""
KINDS = {EntryKind.FILE: "-", EntryKind.DIRECTORY: "d", EntryKind.SYMLINK: "l", EntryKind.OTHER: "?"}

SandboxArgument = Annotated[str, typer.Argument(metavar="SANDBOX")]
PathArgument = Annotated[str, typer.Argument(metavar="PATH")]
FromHere = Annotated[str, typer.Argument(metavar="[PATH]", help="Where to begin.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object a line.")]

Result = TypeVar("Result")

group = typer.Typer(help=HELP, no_args_is_help=True, rich_markup_mode=None, suggest_commands=False)


def register(app: typer.Typer) -> None:
    commands_history.register(group)
    # Of two commands with one name the later one holds: this one also looks at the workspace itself.
    group.command("ls")(list_files)
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
    if found.truncated:
        say(f"cloche: {found.lines} of {found.total_lines} lines; go on with --offset {found.next_offset}")


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
    """Write a file, with the directories on its way; at once, so nobody sees it half. Large files: `put`."""
    data = sys.stdin.buffer.read() if content is None else content.encode()
    bits = None if mode is None else _mode(mode)
    written = ask(sandbox_id, lambda files: files.write(path, data, append=append, mode=bits))
    _tell(written, f"{written.path} {written.size}", json=json)


def _mode(text: str) -> int:
    try:
        return int(text, 8)
    except ValueError:
        raise Invalid(f"--mode {text!r} is not octal: try 644 or 755") from None


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
    _tell(edited, f"{edited.path}:{edited.first_line} {edited.replacements} replaced", json=json)


def list_files(
    sandbox_id: SandboxArgument,
    path: FromHere = ".",
    at: commands_history.At = None,
    recursive: Annotated[bool, typer.Option("--recursive", "-r", help="All that is beneath, too.")] = False,
    json: Json = False,
) -> None:
    """List a directory, sorted: as it is now, or with --at as it was at any sequence of the log."""
    if at is not None:
        commands_history.ls(sandbox_id, "" if path == "." else path, at, recursive, json)
        return
    each(sandbox_id, lambda files: files.list(path, recursive=recursive), show.json_line if json else _line)


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
        say(f"cloche: there is more: the answer ends for its {found.truncated_by}")
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
    path: PathArgument,
    recursive: Annotated[bool, typer.Option("--recursive", "-r", help="A directory with all that is in it.")] = False,
    json: Json = False,
) -> None:
    """Remove a file, a link or a directory."""
    removed = ask(sandbox_id, lambda files: files.remove(path, recursive=recursive))
    _tell(removed, f"{removed.path} {removed.entries}", json=json)


@group.command("mv")
def move(
    sandbox_id: SandboxArgument,
    path: PathArgument,
    to: Annotated[str, typer.Argument(metavar="TO")],
    overwrite: Annotated[bool, typer.Option("--force", "-f", help="Replace what is there.")] = False,
    json: Json = False,
) -> None:
    """Give a file or a directory another name, making the directories on the way."""
    moved = ask(sandbox_id, lambda files: files.move(path, to, overwrite=overwrite))
    _tell(moved, moved.path, json=json)


@group.command()
def put(
    sandbox_id: SandboxArgument,
    local: Annotated[Path, typer.Argument(metavar="LOCAL", exists=True, help="A file or a directory here.")],
    path: FromHere = ".",
    json: Json = False,
) -> None:
    """Copy a file or a tree into the sandbox. Into PATH where that is a directory, else as PATH."""

    async def work(files: Files) -> Any:
        return await files.put(local, await _target(files, path, local.resolve().name))

    done = ask(sandbox_id, work)
    _tell(done, f"{done.path} {done.files} files {done.bytes} bytes", json=json)


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
    _tell(done, f"{target} {done.files} files {done.bytes} bytes", json=json)


def _tell(answer: object, line: str, *, json: bool) -> None:
    if json:
        show.json_line(answer)
    else:
        print(printable(line))


def _line(entry: FileEntry) -> None:
    link = f" -> {entry.symlink}" if entry.symlink is not None else ""
    print(f"{KINDS[entry.kind]}{entry.mode:03o} {entry.size:>12} {printable(entry.path)}{printable(link)}")


def _path(entry: FileEntry) -> None:
    print(printable(entry.path))
