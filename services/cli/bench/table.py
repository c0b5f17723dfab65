"""The figures as a table: for the terminal, and for docs/benchmarks.md."""

import datetime
import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from rich.table import Table

from infra.settings import Durability
from services.cli.bench.figure import Figure, number

COLUMNS = ("figure", "cloche", "bare", "ratio", "aim", "")


class Conditions(Struct, frozen=True, kw_only=True):
    """What the figures depend on."""

    when: datetime.datetime
    kernel: str
    cpus: int
    load: float
    """Before the run: what others did on the machine."""
    python: str
    durability: Durability
    quick: bool

    def line(self) -> str:
        machine = f"Linux {self.kernel}, {self.cpus} CPUs (load {self.load:.1f} before), Python {self.python}"
        quick = ", quick" if self.quick else ""
        return f"{self.when:%Y-%m-%d %H:%M} UTC, {machine}, durability `{self.durability}`{quick}"


def conditions(when: datetime.datetime, durability: Durability, *, quick: bool) -> Conditions:
    return Conditions(
        when=when,
        kernel=platform.release(),
        cpus=len(os.sched_getaffinity(0)),
        load=os.getloadavg()[0],
        python=platform.python_version(),
        durability=durability,
        quick=quick,
    )


def cells(figure: Figure) -> tuple[str, ...]:
    return (
        figure.what,
        f"{number(figure.value)} {figure.unit}",
        "" if figure.bare is None else f"{number(figure.bare)} {figure.unit} ({figure.beside})",
        _ratio(figure),
        "" if figure.aim is None else figure.aim.text(figure.unit),
        {None: "", True: "met", False: "missed"}[figure.met],
    )


def _ratio(figure: Figure) -> str:
    if figure.ratio is None:
        return ""
    spread = f" ({number(min(figure.ratios))}–{number(max(figure.ratios))})" if figure.ratios else ""
    return f"{number(figure.ratio)} ×{spread}"


def for_terminal(figures: Sequence[Figure], under: Conditions) -> Table:
    table = Table(title=under.line(), box=None, header_style="bold", pad_edge=False, title_justify="left")
    for name in COLUMNS:
        table.add_column(name)
    for figure in figures:
        table.add_row(*cells(figure), style="yellow" if figure.met is False else "")
    return table


def as_markdown(figures: Sequence[Figure], under: Conditions) -> str:
    rows = [COLUMNS, tuple("---" for _ in COLUMNS), *(cells(figure) for figure in figures)]
    return "\n".join([under.line(), "", *(f"| {' | '.join(row)} |" for row in rows)]) + "\n"


BEGIN, END = "<!-- tables: begin -->", "<!-- tables: end -->"
INTRODUCTION = f"# Benchmarks\n\nWritten by `./cloche bench --write`.\n\n{BEGIN}\n{END}\n"
HEADING = "### "


def store(page: Path, parts: Mapping[str, str], order: Sequence[str]) -> None:
    """Replaces the page's tables of these names, and leaves all others and the words around them.

    Makes the page where there is none. `order`: the names that there may be; what is left of others is dropped.
    """
    text = page.read_text() if page.exists() else INTRODUCTION
    before, found, rest = text.partition(BEGIN)
    stored, _, after = rest.partition(END) if found else ("", "", "")
    tables = {**_parts(stored), **parts}
    shown = "\n".join(f"{HEADING}{name}\n\n{tables[name].strip()}\n" for name in order if name in tables)
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(f"{before}{BEGIN}\n\n{shown}\n{END}{after}")


def _parts(text: str) -> dict[str, str]:
    found = f"\n{text}".split(f"\n{HEADING}")[1:]
    return {name.strip(): part for name, _, part in (each.partition("\n") for each in found)}
