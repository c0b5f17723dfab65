"""`devcontainer init`: a configuration that works in a sandbox."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from contracts.errors import Invalid
from infra.sandbox.devcontainer.template import CONFIG, write_template


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="Sandboxes made from a project's devcontainer.json.", no_args_is_help=True)
    # With a single command typer would drop its name; a callback keeps `devcontainer` a group.
    group.callback()(lambda: None)
    group.command("init")(init)
    app.add_typer(group, name="devcontainer")


def init(directory: Annotated[Path, typer.Argument(help="The project.", metavar="[DIR]")] = Path()) -> None:
    """Write .devcontainer/devcontainer.json, a short template that works with the sandbox's hardening."""
    try:
        written = write_template(directory)
    except FileExistsError as error:
        raise Invalid(f"{directory / CONFIG} is there already, and is left as it is") from error
    except OSError as error:
        raise Invalid(f"cannot write {directory / CONFIG}: {error.strerror}") from error
    print(f"wrote {written}")
    print("next: choose its image, then")
    source = (
        f"--set workspace.source.kind=directory --set workspace.source.path={shlex.quote(str(directory.resolve()))}"
    )
    print(f"  cloche create --isolation devcontainer {source}")
    print("`cloche doctor` tells whether the devcontainer CLI and a Docker engine are there")
