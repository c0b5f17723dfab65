"""`mcp`: the tools of one sandbox, for an agent that lives outside."""

import asyncio
from typing import Annotated

import typer

from contracts.errors import Invalid
from services.mcp.profiles import Profile

MISSING = "`cloche mcp` needs the MCP SDK: install it with `pip install 'cloche[mcp]'`"


def register(app: typer.Typer) -> None:
    app.command("mcp")(serve)


def serve(
    sandbox_id: Annotated[
        str | None,
        typer.Option("--sandbox", metavar="SANDBOX", envvar="CLOCHE_SANDBOX", help="What all tools work in."),
    ] = None,
    profile: Annotated[
        Profile, typer.Option(help="explore: read, glob, grep. code: also write, edit, run.")
    ] = Profile.CODE,
) -> None:
    """Serve a sandbox's tools by the Model Context Protocol, on standard input and output.

    For the configuration of an MCP client; see docs/mcp.md. The model never names the sandbox.
    """
    try:
        import mcp  # noqa: F401
    except ModuleNotFoundError as error:
        raise Invalid(f"{MISSING} ({error})") from None
    from infra.service import until_told

    asyncio.run(until_told(_serve(sandbox_id, profile)))


async def _serve(sandbox_id: str | None, profile: Profile) -> None:
    from services.cli.session import connected
    from services.mcp import app
    from services.mcp.wire import Wire

    # First of all: whatever is printed while we connect is not for the client.
    wire = Wire.of_this_process()
    async with connected() as cloche:
        await app.serve(cloche, wire, sandbox_id, profile)
