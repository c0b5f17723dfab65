"""A session of everything: commands, a terminal, files, an agent that asks for leave, requests that pass or do not."""

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from contracts.commands.command import PtySize
from contracts.events import agent as facts
from infra.client import Cloche, Sandbox
from infra.client.agent_run import AgentRun
from tests.egress.clients import asks
from tests.egress.settings import write_settings
from tests.services.node import Node, Service

ADDRESS = "127.7.0.77"
HOST = "good.test"
SCRIPT = [
    {"say": ["Hel", "lo, ", "I begin"]},
    {"think": "about files"},
    {"write": "agent.txt", "content": "one\ntwo\n"},
    {"edit": "agent.txt", "old": "two", "new": "2"},
    {"ask": "May I?", "tool": "deploy", "steps": [{"say": "I may"}], "denied": [{"say": "I may not"}]},
    {"ask": "And this?", "tool": "publish", "steps": [{"say": "I may"}], "denied": [{"say": "I may not"}]},
    {"run": "cat agent.txt; rm agent.txt; exit 3"},
    {"spend": {"cost_usd": 0.25, "input_tokens": 7, "output_tokens": 2}},
    {"say": "done"},
]
Pause = Callable[[Sandbox], Awaitable[None]]
"""Called where nothing runs."""


class SessionNode(Node):
    """With agents."""

    def __init__(self, data: Path, **values: str) -> None:
        super().__init__(data, **values)
        self.services["agent"] = Service("agent", data, values)


@asynccontextmanager
async def session_node(place: Path, settings: str = "") -> AsyncIterator[SessionNode]:
    """`settings` are more of `cloche.toml`."""
    write_settings(place, {HOST: ADDRESS})
    with (place / "cloche.toml").open("a") as file:
        file.write(settings)
    async with SessionNode(place) as node:
        yield node


@asynccontextmanager
async def web_server() -> AsyncIterator[int]:
    """Says hello to everybody. Gives its port."""

    async def hello(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(hello, ADDRESS, 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def play(cloche: Cloche, sandbox_id: str, port: int, pause: Pause) -> Sandbox:
    sandbox = await made(cloche, sandbox_id, port)
    await pause(sandbox)
    await commands(sandbox, pause)
    await requests(sandbox, port)
    await agent(sandbox)
    await pause(sandbox)
    await ended(sandbox, pause)
    return sandbox


async def made(cloche: Cloche, sandbox_id: str, port: int) -> Sandbox:
    network = {"allowed_hosts": [HOST], "allowed_ports": [port]}
    return await cloche.create({"network": network, "labels": {"of": "tests"}}, id=sandbox_id)


async def commands(sandbox: Sandbox, pause: Pause) -> None:
    await sandbox.run(
        "mkdir -p src empty; echo 'print(1)' > src/main.py; ln -s main.py src/link; seq 1 200; echo oops >&2"
    )
    await pause(sandbox)
    await _terminal(sandbox)
    await sandbox.run(["cat"], input=b"typed \xff\x00\n")
    await sandbox.run("echo 'print(2)' > src/main.py; mv src/main.py src/moved.py; exit 4")
    await sandbox.run("sleep 30", timeout_ms=50)
    await pause(sandbox)


async def requests(sandbox: Sandbox, port: int) -> None:
    await asks(sandbox, host=f"{HOST}:{port}")
    await asks(sandbox, host="denied.example")


async def ended(sandbox: Sandbox, pause: Pause) -> None:
    await sandbox.pause()
    await sandbox.resume()
    await sandbox.run("rm -rf empty")
    await pause(sandbox)
    await sandbox.stop()


async def going_on(sandbox: Sandbox) -> None:
    """Two that nobody ends: one has written something, one waits for what it is told."""
    reading = await sandbox.start(["cat"], stdin=True)
    await reading.write(b"heard\n")
    ticking = await sandbox.start("echo begun; sleep 3600", timeout_ms=3_600_000)
    for each in (reading, ticking):
        async for output in each.output():
            assert output
            break


async def _terminal(sandbox: Sandbox) -> None:
    shell = await sandbox.start(["sh"], pty=PtySize(rows=10, cols=40), stdin=True)
    await shell.write(b"printf '\\033[1;31mred\\033[0m \\342\\202\\254 %s\\n' \"$(stty size)\"\n")
    await shell.resize(12, 50)
    await shell.write(b"stty size; seq 1 30; printf '\\033[2J\\033[5;5Hhere'\n")
    await shell.write(b"exit 7\n")
    await shell.wait()


async def agent(sandbox: Sandbox) -> None:
    options = {"script": msgspec.json.encode(SCRIPT).decode()}
    run = await sandbox.agent.start("script", "do what is written", options=options)
    await sandbox.agent.approve(await _asked(run, "deploy"), reason="fine")
    await sandbox.agent.reject(await _asked(run, "publish"), reason="not today")
    await run.wait()


async def _asked(run: AgentRun, tool: str) -> str:
    async for event in run.events(follow=True):
        fact: Any = event.fact
        if isinstance(fact, facts.AgentApprovalRequested) and fact.tool == tool:
            return fact.approval
    raise AssertionError(f"nobody asked for {tool}")


def listing(workspace: Path) -> dict[str, str]:
    """What is really there: the hash of each file, the target of each link."""
    found: dict[str, str] = {}
    for place, directories, names in os.walk(workspace):
        for name in (*directories, *names):
            path = Path(place) / name
            told = str(path.relative_to(workspace))
            if path.is_symlink():
                found[told] = f"-> {path.readlink()}"
            else:
                found[told] = "/" if path.is_dir() else hashlib.sha256(path.read_bytes()).hexdigest()
    return found
