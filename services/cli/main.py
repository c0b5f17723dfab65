"""`cloche`: the command line."""

import importlib
import signal
import sys

import typer

from contracts.errors import ClocheError
from services.cli.hints import hint

HELP = """Sealed sandboxes for AI agents, with everything that happens in them on one durable, replayable log.

Start with `cloche demo`, or `cloche run -- CMD…`. Everything lives under CLOCHE_DATA.
"""

MODULES: dict[str, tuple[str, ...]] = {
    "commands_run": ("run", "exec"),
    "commands_sandbox": ("create", "ps", "stop", "start", "pause", "resume", "snapshot", "recover", "rm", "kill"),
    "commands_health": ("top", "why"),
    "commands_record": ("events", "logs"),
    "commands_state": ("state", "rebuild"),
    "commands_screen": ("screen",),
    "commands_show": ("show",),
    "commands_replay": ("replay",),
    "commands_fork": ("fork",),
    "commands_compare": ("compare",),
    "commands_export": ("export", "import"),
    "commands_verify": ("verify",),
    "commands_backup": ("backup", "restore"),
    "commands_audit": ("audit",),
    "commands_files": ("files",),
    "commands_worktree": ("diff", "commit"),
    "commands_garbage": ("gc",),
    "commands_net": ("net",),
    "commands_secrets": ("secret",),
    "commands_guardian": ("guardian",),
    "commands_agent": ("agent",),
    "commands_mcp": ("mcp",),
    "commands_open": ("open",),
    "commands_quotas": ("quotas",),
    "commands_token": ("token",),
    "commands_system": ("up", "node", "down", "doctor"),
    "commands_servers": ("nats", "provision"),
    "commands_nodes": ("nodes", "drain"),
    "commands_dashboard": ("dashboard",),
    "commands_devcontainer": ("devcontainer",),
    "commands_development": ("demo", "test", "bench", "schema"),
}
"""Only the module of the command that was asked for is imported: most of `cloche run -- true` would be imports."""


def make_app(wanted: str | None) -> typer.Typer:
    """With the one command, or with all of them where none of that name is known."""
    app = typer.Typer(
        name="cloche",
        help=HELP,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        # click has its own.
        suggest_commands=False,
    )
    # With a single command typer would drop its name; a callback keeps `cloche` a group.
    app.callback()(lambda: None)
    chosen = [module for module, commands in MODULES.items() if wanted in commands] or list(MODULES)
    for module in chosen:
        importlib.import_module(f"services.cli.{module}").register(app)
    return app


def _as_ctrl_c(*_: object) -> None:
    """What was started for this command line is ended with it, also where a script has put it in the background: its
    shell has Ctrl-C ignored then."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.raise_signal(signal.SIGINT)


def main() -> None:
    """One clear line and a non-zero code for everything that can be expected to go wrong."""
    signal.signal(signal.SIGTERM, _as_ctrl_c)
    try:
        make_app(sys.argv[1] if len(sys.argv) > 1 else None)(prog_name="cloche")
    except ClocheError as error:
        print(f"cloche: {error.message}{hint(error)}", file=sys.stderr)
        sys.exit(2 if error.http_status < 500 else 1)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(141)
    except KeyboardInterrupt:
        sys.exit(130)
