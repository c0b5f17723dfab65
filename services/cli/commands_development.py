"""`demo`, `test`, `bench`, `soak`, `schema`: for those who try it or work on it."""

import asyncio
import sys
from pathlib import Path
from typing import Annotated

import typer

from contracts.schema import documents

PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True}


def register(app: typer.Typer) -> None:
    app.command("demo")(demo)
    app.command("test", context_settings=PASS_ON)(test)
    app.command("bench")(bench)
    app.command("soak")(soak)
    app.command("schema")(schema)


def demo() -> None:
    """Watch the main job, start to end, on a data directory of its own. Ends by itself."""
    from services.cli.demo import play

    raise typer.Exit(asyncio.run(play()))


def test(context: typer.Context) -> None:
    """Run every check: format, lint, types, imports, schema, tests. Arguments go to pytest."""
    from services.cli.checks import run_checks

    raise typer.Exit(run_checks(tuple(context.args)))


def bench(
    quick: Annotated[bool, typer.Option(help="A short run, to see that it works.")] = False,
    write: Annotated[bool, typer.Option(help="Store the table in docs/benchmarks.md.")] = False,
    docker: Annotated[
        str | None,
        typer.Option(metavar="IMAGE", envvar="CLOCHE_BENCH_IMAGE", help="Also in containers of this image."),
    ] = None,
    swe_rex: Annotated[
        str | None,
        typer.Option(metavar="PYTHON", envvar="CLOCHE_BENCH_SWE_REX", help="A Python that has SWE-ReX, to compare."),
    ] = None,
    only: Annotated[list[str] | None, typer.Option(metavar="NAME", help="This benchmark. May be repeated.")] = None,
) -> None:
    """Measure against the bare alternatives, in one run."""
    from services.cli.bench import Choice, find_browser, find_swe_rex, measure

    choice = Choice(only=tuple(only or ()), image=docker, browser=find_browser(), swe_rex=find_swe_rex(swe_rex))
    raise typer.Exit(asyncio.run(measure(choice, quick=quick, write=write)))


def soak(
    commands: Annotated[int, typer.Option(min=50, help="How many to run, four at a time.")] = 1000,
    docker: Annotated[
        str | None,
        typer.Option(metavar="IMAGE", envvar="CLOCHE_BENCH_IMAGE", help="In a container of this image."),
    ] = None,
) -> None:
    """Run many commands, and see that nothing of them is left: no process, exec, connection or descriptor."""
    from services.cli.soak import soak as run

    raise typer.Exit(asyncio.run(run(commands, docker)))


def schema(
    check: Annotated[bool, typer.Option("--check", help="Only say whether the files are current.")] = False,
    directory: Annotated[Path, typer.Option(help="Where the files are.")] = Path("docs"),
) -> None:
    """Write AsyncAPI 3 and JSON Schema of every message, and OpenAPI of the gateway, to docs/."""
    from services.gateway.openapi import document

    current = {**documents(), document.FILE: document.text()}
    stale = [name for name, text in current.items() if not _is(directory / name, text)]
    if check:
        if stale:
            print(f"not current: {', '.join(stale)}; run `cloche schema`", file=sys.stderr)
        raise typer.Exit(1 if stale else 0)
    directory.mkdir(parents=True, exist_ok=True)
    for name in stale:
        (directory / name).write_text(current[name])
        print(f"wrote {directory / name}")


def _is(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text() == text
