"""`quotas`: what projects and principals use, and what they may."""

import asyncio
from typing import Annotated

import typer

from contracts.quotas import GetQuotas, Kind, QuotaUse, summed
from infra.client.quotas import every_quota
from services.cli import show
from services.cli.quota_table import quota_table
from services.cli.session import connected


def register(app: typer.Typer) -> None:
    app.command("quotas")(quotas)


def quotas(
    project: Annotated[str | None, typer.Option(help="Only this project.")] = None,
    principal: Annotated[str | None, typer.Option(help="Only this principal: the name in a token.")] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
) -> None:
    """Show what each project and principal uses, beside what it may: sandboxes, CPUs, memory, what agents spent.

    Limits are set under [quotas] in cloche.toml. What stands for nobody in particular is shown as `-`.
    """
    asked = [
        GetQuotas(kind=kind, name=name)
        for kind, name in ((Kind.PROJECT, project), (Kind.PRINCIPAL, principal))
        if name is not None
    ]

    async def go() -> list[QuotaUse]:
        async with connected() as cloche:
            buses = [part.bus for part in cloche.parts.values()]
            return [line for bus in buses for query in asked or [GetQuotas()] async for line in every_quota(bus, query)]

    lines = summed(asyncio.run(go()))
    if json:
        for line in lines:
            show.json_line(line)
    else:
        quota_table(lines)
