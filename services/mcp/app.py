"""An MCP server over one pair of streams: the tools of one sandbox, for an agent that lives elsewhere."""

from importlib.metadata import PackageNotFoundError, version
from typing import Any

import msgspec
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ContentBlock,
    ImageContent,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
)

from contracts.errors import ClocheError, Failure, Invalid, Unavailable
from infra.client import Cloche
from services.mcp.call import Call
from services.mcp.context import Context
from services.mcp.outcome import Outcome
from services.mcp.profiles import Profile
from services.mcp.texts import failure_text
from services.mcp.tools import Offer, described, offers_of
from services.mcp.wire import Wire

AT_ONCE = 32
"""Calls. What waits here is held in memory."""
INSTRUCTIONS = """These tools work in one sealed sandbox, the same for every call. Paths are relative to its workspace.
Everything that is done is on a durable log. An error has a stable code, and says whether it is worth another try."""


class Tools:
    """Answers what a client asks."""

    def __init__(self, context: Context, profile: Profile) -> None:
        self._context = context
        self._offers = offers_of(profile)
        self._running = 0

    async def list(self, _ctx: ServerRequestContext[Any], _page: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=[described(name, offer) for name, offer in self._offers.items()])

    async def call(self, ctx: ServerRequestContext[Any], asked: CallToolRequestParams) -> CallToolResult:
        """What goes wrong in a tool is an answer too, so that the model can see it."""
        offer = self._offers.get(asked.name)
        if offer is None:
            there = ", ".join(self._offers)
            raise MCPError(INVALID_PARAMS, f"there is no tool {asked.name[:80]!r} here, only {there}")
        try:
            return _told(await self._work(ctx, offer, asked.arguments or {}))
        except ClocheError as error:
            return _refused(error.failure())

    async def _work(self, ctx: ServerRequestContext[Any], offer: Offer, given: dict[str, Any]) -> Outcome:
        if self._running >= AT_ONCE:
            raise Unavailable(f"{AT_ONCE} calls are under way: wait for one of them")
        wanted = _read(given, offer)
        self._running += 1
        try:
            sandbox = await self._context.sandbox()
            call = Call(self._context.cloche.bus_of(sandbox.id), sandbox, ctx.session.report_progress)
            return await offer.work(call, wanted)
        finally:
            self._running -= 1


def _read(given: dict[str, Any], offer: Offer) -> Any:
    try:
        return msgspec.convert(given, offer.arguments)
    except msgspec.ValidationError as error:
        raise Invalid(f"arguments: {error}") from error


def _told(outcome: Outcome) -> CallToolResult:
    content: list[ContentBlock] = [TextContent(text=text) for text in outcome.texts]
    if outcome.image is not None:
        content.append(ImageContent(data=outcome.image.data, mime_type=outcome.image.mime))
    return CallToolResult(content=content, structured_content=msgspec.to_builtins(outcome.answer))


def _refused(failure: Failure) -> CallToolResult:
    return CallToolResult(
        content=[TextContent(text=failure_text(failure))],
        structured_content={"error": msgspec.to_builtins(failure)},
        is_error=True,
    )


def make_server(cloche: Cloche, sandbox: str | None, profile: Profile) -> Server[Any]:
    tools = Tools(Context(cloche, sandbox), profile)
    return Server(
        "cloche",
        version=_version(),
        title="Cloche sandbox",
        instructions=INSTRUCTIONS,
        on_list_tools=tools.list,
        on_call_tool=tools.call,
    )


def _version() -> str:
    try:
        return version("cloche")
    except PackageNotFoundError:
        return ""


async def serve(cloche: Cloche, wire: Wire, sandbox: str | None, profile: Profile) -> None:
    """Until the client is gone, or this is cancelled; commands that are under way then are cancelled."""
    server = make_server(cloche, sandbox, profile)
    async with wire.streams() as (received, sent):
        await server.run(received, sent, server.create_initialization_options())
