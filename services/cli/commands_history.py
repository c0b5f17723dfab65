"""`files ls`, `cat`, `tree`, `diff`: the files of a sandbox at any sequence of the log, also after it is gone."""

import asyncio
import os
import sys
from collections.abc import Iterable, Iterator
from typing import Annotated

import typer

from contracts.changes import Difference, compare
from contracts.errors import ClocheError, SandboxError, SandboxFileNotFound, Unavailable
from contracts.events.file import EntryKind
from contracts.manifest import Entry, Tree
from infra.client import Sandbox
from infra.client.history import FileHistory, Past
from infra.watching.unified import unified
from infra.words.escaping import printable
from services.cli import show
from services.cli.diff_colours import coloured
from services.cli.entry_line import entry_line, entry_name
from services.cli.passthrough import STDOUT, write_all
from services.cli.session import connected

SandboxArgument = Annotated[str, typer.Argument(metavar="SANDBOX")]
PathArgument = Annotated[str, typer.Argument(metavar="[PATH]", help="In the workspace; all of it unless given.")]
At = Annotated[int | None, typer.Option("--at", min=1, help="As of this sequence of the log (see `cloche events`).")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object a line.")]

DIFF_BYTES = 1024 * 1024


def register(files: typer.Typer) -> None:
    files.command("cat")(cat)
    files.command("tree")(tree)
    files.command("diff")(diff)


def ls(
    sandbox_id: SandboxArgument,
    path: PathArgument = "",
    at: At = None,
    recursive: Annotated[bool, typer.Option("--recursive", "-r", help="All beneath it.")] = False,
    json: Json = False,
) -> None:
    """What is in a directory of the workspace, now or at any earlier moment."""
    past = asyncio.run(_past(sandbox_id, path, at, recursive=recursive))
    for raw in sorted(past.tree):
        entry = past.tree[raw]
        if json:
            show.json_line(entry)
        else:
            print(entry_line(entry))


def cat(
    sandbox_id: SandboxArgument,
    path: Annotated[str, typer.Argument(metavar="PATH")],
    at: At = None,
) -> None:
    """The bytes of a file, exactly, now or at any earlier moment."""

    async def go() -> None:
        async with connected() as cloche:
            sandbox = await cloche.sandbox(sandbox_id)
            async for chunk in sandbox.history.chunks(os.fsencode(path), at or await _now(sandbox)):
                await asyncio.to_thread(write_all, STDOUT, chunk)

    asyncio.run(go())


def tree(sandbox_id: SandboxArgument, path: PathArgument = "", at: At = None) -> None:
    """All that is in a directory of the workspace, drawn as a tree, now or at any earlier moment."""
    past = asyncio.run(_past(sandbox_id, path, at, recursive=True))
    print(printable(path or past.workspace))
    inside = path.removeprefix(past.workspace).strip("/")
    depth = inside.count("/") + 1 if inside else 0
    for raw, branch in branches(past.tree, depth):
        print(branch + entry_name(past.tree[raw], past.tree[raw].path.rpartition("/")[2]))
    files = [entry for entry in past.tree.values() if entry.kind == EntryKind.FILE]
    print(f"{len(past.tree)} entries, {sum(entry.size for entry in files)} bytes, at sequence {past.sequence}")


def branches(paths: Iterable[bytes], depth: int) -> Iterator[tuple[bytes, str]]:
    """Each path, in order, and the lines before its name; the first `depth` names of each are not drawn."""
    ordered = sorted(tuple(raw.split(b"/")) for raw in paths)
    last = {names[:-1]: names for names in ordered}
    for names in ordered:
        above = (names[:length] for length in range(depth + 1, len(names)))
        lines = ["    " if last.get(each[:-1]) == each else "│   " for each in above]
        yield b"/".join(names), "".join(lines) + ("└── " if last[names[:-1]] == names else "├── ")


def diff(
    sandbox_id: SandboxArgument,
    path: PathArgument = "",
    at: Annotated[int | None, typer.Option("--at", min=1, help="From this sequence of the log.")] = None,
    to: Annotated[int | None, typer.Option("--to", min=1, help="To this one; now unless given.")] = None,
    names: Annotated[bool, typer.Option("--names", help="Only which files, not their lines.")] = False,
) -> None:
    """What became different in the files between two moments: from `--at` (its beginning unless given) to `--to`."""

    async def go() -> None:
        async with connected() as cloche:
            sandbox = await cloche.sandbox(sandbox_id)
            history = sandbox.history
            old = await _tree(history, path, at or await history.beginning())
            new = await _tree(history, path, to or await _now(sandbox))
            for difference in compare(old, new):
                before, after = old.get(difference.path), difference.entry
                _tell(difference, before, "" if names else await _lines(history, before, after))

    asyncio.run(go())


async def _past(sandbox_id: str, path: str, at: int | None, *, recursive: bool) -> Past:
    async with connected() as cloche:
        sandbox = await cloche.sandbox(sandbox_id)
        return await sandbox.history.tree(at or await _now(sandbox), path=os.fsencode(path), recursive=recursive)


async def _now(sandbox: Sandbox) -> int | None:
    """The sequence at which the log has what is in the workspace at this moment; None where there is no workspace."""
    try:
        return (await sandbox.flush()).sequence
    except (SandboxError, Unavailable):
        return None


async def _tree(history: FileHistory, path: str, at: int | None) -> Tree:
    """Nothing where there was no such path: that is a difference too."""
    try:
        return (await history.tree(at, path=os.fsencode(path))).tree
    except SandboxFileNotFound:
        return {}


def _tell(difference: Difference, before: Entry | None, text: str) -> None:
    entry = difference.entry or before
    if entry is not None:
        print(f"{difference.action} {entry_name(entry, entry.path)}", flush=True)
    if text:
        raw = text.encode()
        write_all(STDOUT, coloured(raw) if sys.stdout.isatty() else raw)


async def _lines(history: FileHistory, before: Entry | None, after: Entry | None) -> str:
    """The lines that differ, where both are texts that are not too large."""
    entry = after or before
    if entry is None or (before and before.sha256) == (after and after.sha256):
        return ""
    old, new = await _text(history, before), await _text(history, after)
    return "" if old is None or new is None else unified(old, new, entry.path) or ""


async def _text(history: FileHistory, entry: Entry | None) -> str | None:
    """Empty for what is not a file, None for what is no text, or too much of it, or not to be had."""
    if entry is None or entry.kind != EntryKind.FILE:
        return ""
    if entry.size > DIFF_BYTES:
        return None
    try:
        return b"".join([chunk async for chunk in history.content(entry)]).decode()
    except (UnicodeDecodeError, ClocheError):
        return None
