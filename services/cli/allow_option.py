"""`--allow` of `run` and `create`."""

from typing import Annotated

import typer

from contracts.spec import Preset

AllowOption = Annotated[
    list[str] | None,
    typer.Option(
        "--allow",
        metavar="HOST|PRESET,…",
        help=f"Let it reach these, and nothing else: names, *.suffixes, or {', '.join(Preset)}. Repeatable.",
    ),
]
