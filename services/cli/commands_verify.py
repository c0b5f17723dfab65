"""`verify`: what the log proves of itself."""

import asyncio
import os
from pathlib import Path
from typing import Annotated, Self

import typer

from contracts import subjects
from contracts.errors import Invalid, SandboxNotFound
from contracts.ids import is_token
from contracts.verifying import Trust, Verdict
from infra.bus.connection import Bus
from infra.configuration import load
from infra.log.archived import ArchivedView
from infra.log.choosing import view_of
from infra.log.live import LiveView
from infra.realms import parts
from infra.verify import anchors, keeping, keys
from infra.verify.export import verify_export
from infra.verify.log import Tell, verify_log, verify_sandbox
from services.cli import show, verify_words
from services.cli.partitions import of_partition, title
from services.cli.progress_line import ProgressLine
from services.cli.session import connected


def register(app: typer.Typer) -> None:
    app.command("verify")(verify)


def verify(
    wanted: Annotated[
        str | None, typer.Argument(metavar="[SANDBOX|FILE]", help="The whole log unless given. A FILE is an export.")
    ] = None,
    given_keys: Annotated[
        list[str] | None,
        typer.Option("--key", metavar="KEY|FILE", help="A public key that you trust, as `cloche audit` shows it."),
    ] = None,
    given_anchors: Annotated[
        list[Path] | None,
        typer.Option("--anchors", metavar="FILE", help="Checkpoints that were kept elsewhere (`audit.anchors`)."),
    ] = None,
    no_blobs: Annotated[bool, typer.Option("--no-blobs", help="Leave out the contents of files.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Prove that nothing is missing from the log, that nothing was added to it, and that nothing in it was changed.

    Checked are the bytes of every command and that each ended once; the chain of hashes over all events, and who signed
    it; and the contents of all files that events name. Every fault is told with its sequence, the first one first. The
    exit code is 1 if there is any.

    An export is checked without a server: `cloche verify session.jsonl.gz --key KEY`. Without `--key` a signature tells
    that all is of one author, not of which one. A log whose end was cut off can only be told by `--anchors`, or on the
    node that keeps it.
    """
    trust = Trust(
        tuple(key for given in given_keys or () for key in keys.read(given)),
        None,
        tuple(anchors.read(file) for file in given_anchors or ()),
    )
    with _Progress() as progress:
        if wanted is None or is_token(wanted):
            verdicts = asyncio.run(_of_node(wanted, trust, progress.tell, blobs=not no_blobs))
        else:
            verdicts = {0: verify_export(_file(wanted), trust, progress.tell, blobs=not no_blobs)}
    for number, verdict in verdicts.items():
        if json:
            show.json_line(of_partition(verify_words.as_json(verdict), number, len(verdicts)))
        else:
            title(number, len(verdicts))
            print("\n".join(verify_words.lines(verdict)))
    raise typer.Exit(1 if any(verdict.findings for verdict in verdicts.values()) else 0)


def _file(wanted: str) -> Path:
    if not (file := Path(wanted)).exists():
        raise Invalid(f"{wanted!r} is no sandbox id, and there is no file of that name")
    return file


def _file_of_that_name(sandbox: str) -> str:
    return f", and the file of that name is `./{sandbox}`" if Path(sandbox).is_file() else ""


async def _of_node(sandbox: str | None, trust: Trust, tell: Tell, *, blobs: bool) -> dict[int, Verdict]:
    """Of the log, of each where it is divided, or of the one that has the sandbox."""
    async with connected() as cloche:
        folders = [part.data for part in parts(load(os.environ))]
        logs = zip(cloche.parts.items(), folders, strict=True)
        return {
            number: await _of_log(part.bus, folder, sandbox, trust, tell, blobs=blobs)
            for (number, part), folder in logs
            if sandbox is None or part.holds(sandbox)
        }


async def _of_log(bus: Bus, folder: Path, sandbox: str | None, trust: Trust, tell: Tell, *, blobs: bool) -> Verdict:
    kept = await asyncio.to_thread(keeping.read, folder)
    view = LiveView(bus) if sandbox is None else await view_of(bus, sandbox)
    assert isinstance(view, LiveView | ArchivedView)
    log = ""
    if isinstance(view, LiveView) and await kept.is_of(view):
        log = kept.log
        trust = Trust(trust.keys, kept.key, (*trust.anchors, *kept.checkpoints))
    if sandbox is None:
        return await verify_log(LiveView(bus), trust, tell, log=log, blobs=blobs)
    if await view.last(subjects.events_of(sandbox)[0]) is None:
        raise SandboxNotFound(f"there is no sandbox {sandbox!r}{await asyncio.to_thread(_file_of_that_name, sandbox)}")
    return await verify_sandbox(view, sandbox, trust, tell, log=log, blobs=blobs)


class _Progress:
    """One line, whatever is looked at."""

    def __init__(self) -> None:
        self._lines: dict[str, ProgressLine] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for line in self._lines.values():
            line.clear()

    def tell(self, what: str, done: int, whole: int) -> None:
        self._lines.setdefault(what, ProgressLine(f"verifying {what}")).at(done, whole)
