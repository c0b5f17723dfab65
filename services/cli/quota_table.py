"""How quotas look: one project or principal a line, what is used beside what may be."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from contracts.quotas import Period, QuotaUse
from infra.words.escaping import printable
from services.cli.words import say

WIDE = 1000
LONGEST_NAME = 60
PER = {Period.DAY: "/day", Period.MONTH: "/month", Period.EVER: ""}


def quota_table(lines: Sequence[QuotaUse]) -> None:
    if not lines:
        say("nobody has a sandbox, and nobody a quota of their own: see [quotas] in docs/quotas.md")
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("KIND")
    table.add_column("NAME")
    for title in ("SANDBOXES", "CPUS", "MEMORY MB", "SPENT USD"):
        table.add_column(title, justify="right")
    for line in lines:
        quota, used = line.quota, line.used
        table.add_row(
            line.kind,
            printable(line.name, LONGEST_NAME) or "-",
            _cell(f"{used.sandboxes}", used.sandboxes, quota.sandboxes),
            _cell(f"{used.cpus:g}", used.cpus, quota.cpus),
            _cell(f"{used.memory_mb}", used.memory_mb, quota.memory_mb),
            _cell(f"{line.spent_usd:.2f}", line.spent_usd, quota.spend_usd, PER[quota.spend_per]),
        )
    Console(highlight=False, width=WIDE).print(table)


def _cell(shown: str, used: float, limit: float | None, per: str = "") -> Text:
    """Red where nothing is left, so that whoever was refused sees by what."""
    if limit is None:
        return Text(shown)
    return Text(f"{shown} of {limit:.12g}{per}", style="bold red" if used >= limit else "")
