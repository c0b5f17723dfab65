"""`dashboard`: building it."""

import typer

from contracts.errors import Unavailable
from services.cli.words import say
from services.dashboard.build import NotBuilt, build, is_current


def register(app: typer.Typer) -> None:
    dashboard = typer.Typer(no_args_is_help=True, help="The page that `cloche open` opens.")
    dashboard.callback()(lambda: None)
    dashboard.command("build")(build_command)
    app.add_typer(dashboard, name="dashboard")


def build_command() -> None:
    """Build the dashboard from its sources, with this machine's node or one from PyPI. `open` does it by itself."""
    if is_current():
        say("the dashboard: as its sources say")
        return
    try:
        build(say)
    except NotBuilt as error:
        raise Unavailable(f"the dashboard was not built: {error}") from error
