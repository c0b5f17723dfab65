"""Which runtimes this node has, and how to get the others."""

from typing import NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

from contracts.commands.agent import StartAgent
from contracts.errors import ClocheError, Invalid, RuntimeMissing
from infra.words.escaping import printable
from services.agent.runtimes.registry import load_runtimes
from services.agent.runtimes.runtime import Runtime
from services.cli import show

WIDE = 1000
SCRIPT = "script"
ABOUT = {
    SCRIPT: "does what a YAML or JSON file says: --script FILE (docs/agents/script.md)",
    "claude": "Claude Code, by the Claude Agent SDK (docs/agents/claude.md)",
    "acp": "any agent that speaks the Agent Client Protocol (docs/agents/acp.md)",
    "openhands": "OpenHands, in an image with Python 3.12 or later (docs/agents/openhands.md)",
}


class Found(NamedTuple):
    runtime: str
    installed: bool
    about: str
    """What it is; of one that is not installed, how to install it."""


def require_runtime(given: str | None, *, has_script: bool) -> str:
    """Raises `Invalid` where none is named."""
    if given is not None and has_script and given != SCRIPT:
        raise Invalid(f"--script is for runtime {SCRIPT}, not {given!r}")
    if given is None and not has_script:
        raise Invalid(f"--runtime is missing: one of {', '.join(sorted(load_runtimes()))}; see `cloche agent runtimes`")
    return given or SCRIPT


def print_runtimes(*, json: bool) -> None:
    found = [_look(name, runtime) for name, runtime in sorted(load_runtimes().items())]
    if json:
        for each in found:
            show.json_line(each._asdict())
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    for title in ("RUNTIME", "INSTALLED", "ABOUT"):
        table.add_column(title, no_wrap=True)
    for each in found:
        mark = Text("yes", style="green") if each.installed else Text("no", style="yellow")
        table.add_row(printable(each.runtime), mark, Text(printable(each.about)))
    Console(highlight=False, width=WIDE, markup=False, emoji=False).print(table)


def _look(name: str, runtime: Runtime) -> Found:
    about = ABOUT.get(name, "")
    try:
        runtime.check(StartAgent(runtime=name, prompt="go"))
    except RuntimeMissing as error:
        return Found(name, False, error.message)
    except ClocheError:
        # It has what it needs, and only lacks options.
        return Found(name, True, about)
    return Found(name, True, about)
