"""`cloche`: the command line."""

import sys

import typer

from contracts.errors import ClocheError
from services.cli import commands_development, commands_record, commands_run, commands_sandbox, commands_system

app = typer.Typer(
    name="cloche",
    help="Sealed sandboxes for AI agents, with everything that happens in them on one durable, replayable log.\n\n"
    "Start with `cloche demo`, or `cloche run -- CMD…`. Everything lives under CLOCHE_DATA.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for module in (commands_run, commands_sandbox, commands_record, commands_system, commands_development):
    module.register(app)


def main() -> None:
    """One clear line and a non-zero code for everything that can be expected to go wrong."""
    try:
        app()
    except ClocheError as error:
        print(f"cloche: {error.message}", file=sys.stderr)
        sys.exit(2 if error.http_status < 500 else 1)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(141)
    except KeyboardInterrupt:
        sys.exit(130)
