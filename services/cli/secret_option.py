"""`--secret` of `run` and `create`."""

from typing import Annotated

import typer

from services.cli.secret_values import EXAMPLE

SecretOption = Annotated[
    list[str] | None,
    typer.Option(
        "--secret",
        metavar="NAME=HOST",
        help=f"A credential that egress adds to requests, see `cloche secret`: {EXAMPLE}. Repeatable.",
    ),
]
