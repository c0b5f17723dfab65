"""Agents that live outside: the official client over stdio, and one that says whatever it likes."""

import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters, stdio_client
from mcp.client.client import ConnectMode
from mcp_types import CallToolResult, ImageContent, TextContent

from tests.services.node import DEFAULTS, ROOT, Node

PATIENCE_S = 60.0
LINE_BYTES = 2**24
GREETING = {
    "jsonrpc": "2.0",
    "id": "hello",
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}


def environment(node: Node, **values: str) -> dict[str, str]:
    """Of a `cloche` that finds this node."""
    own = {"CLOCHE_DATA": str(node.data), "CLOCHE_URL": node.server.url, "PYTHONPATH": str(ROOT)}
    return {**DEFAULTS, **own, **values}


def argv(*arguments: str) -> list[str]:
    return ["-m", "services.cli", "mcp", *arguments]


@asynccontextmanager
async def agent(
    node: Node, *arguments: str, errors: Path, mode: ConnectMode = "auto", env: Mapping[str, str] | None = None
) -> AsyncIterator[Client]:
    """`cloche mcp` and a client of it. In a task of its own: a fixture begins and ends in different ones.

    It must have nothing to say on stderr.
    """
    server = StdioServerParameters(
        command=sys.executable, args=argv(*arguments), env=environment(node, **(env or {})), cwd=ROOT
    )
    ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
    enough = asyncio.Event()

    async def hold() -> None:
        with errors.open("w") as said:
            async with Client(stdio_client(server, said), mode=mode, read_timeout_seconds=PATIENCE_S) as client:
                ready.set_result(client)
                await enough.wait()

    holding = asyncio.create_task(hold())
    holding.add_done_callback(lambda _: ready.cancel())
    try:
        yield await ready
    finally:
        enough.set()
        await holding
    assert errors.read_text() == ""


def text(result: CallToolResult) -> str:
    return "\n".join(block.text for block in result.content if isinstance(block, TextContent))


def image(result: CallToolResult) -> ImageContent:
    (found,) = (block for block in result.content if isinstance(block, ImageContent))
    return found


async def answered(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """The structure of an answer that is no error."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, text(result)
    structure: dict[str, Any] = result.structured_content
    return structure


async def refused(client: Client, tool: str, arguments: Any) -> dict[str, Any]:
    """The error, which the text says too."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error, result
    error: dict[str, Any] = result.structured_content["error"]
    assert error["code"] in text(result)
    assert error["message"] in text(result)
    assert ("do not retry" in text(result)) is not error["retryable"]
    return error


class Speaker:
    """A client that writes lines and reads lines, and knows no better."""

    def __init__(self, process: Process) -> None:
        self.process = process
        assert process.stdin is not None
        assert process.stdout is not None
        self.stdin, self._stdout = process.stdin, process.stdout

    @classmethod
    @asynccontextmanager
    async def of(cls, node: Node, *arguments: str) -> AsyncIterator["Speaker"]:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *argv(*arguments),
            stdin=PIPE,
            stdout=PIPE,
            env=environment(node),
            cwd=ROOT,
            limit=LINE_BYTES,
        )
        try:
            yield cls(process)
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    def say(self, message: object) -> None:
        self.say_bytes(json.dumps(message).encode())

    def say_bytes(self, line: bytes) -> None:
        self.stdin.write(line + b"\n")

    def ask(self, number: int | str, method: str, **params: Any) -> None:
        self.say({"jsonrpc": "2.0", "id": number, "method": method, "params": params})

    async def hear(self) -> dict[str, Any]:
        """The next line, which must be a message of the protocol."""
        async with asyncio.timeout(PATIENCE_S):
            message: dict[str, Any] = json.loads(await self._stdout.readline())
        assert message["jsonrpc"] == "2.0"
        return message

    async def greet(self) -> None:
        self.say(GREETING)
        assert (await self.hear())["id"] == "hello"
        self.say({"jsonrpc": "2.0", "method": "notifications/initialized"})

    async def ended(self) -> int:
        async with asyncio.timeout(PATIENCE_S):
            return await self.process.wait()
