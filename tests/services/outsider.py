"""A program that knows NATS and JSON, and nothing of ours."""

import asyncio
import contextlib
import json
import secrets
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, NamedTuple, Self

import nats
from nats.aio.client import Client
from nats.aio.msg import Msg

PATIENCE_S = 120.0
ENDS = ("completed", "timed_out", "cancelled", "rejected", "lost")


class Heard(NamedTuple):
    subject: str
    event: dict[str, Any]

    @property
    def type(self) -> str:
        return str(self.event["type"])

    @property
    def data(self) -> dict[str, Any]:
        return dict(self.event["data"])


def login(data: Path) -> tuple[str, int, str, str]:
    """Host, port, user and password, from the files that `cloche doctor` names."""
    port = json.loads((data / "run" / "nats.json").read_text())["port"]
    client = json.loads((data / "secrets" / "client.json").read_text())
    return "127.0.0.1", port, client["user"], client["password"]


class Outsider:
    """Publishes without waiting for an acknowledgement, and remembers everything it hears of the log."""

    def __init__(self, client: Client, data: Path) -> None:
        self.nats = client
        self.heard: list[Heard] = []
        self._data = data
        self._news = asyncio.Event()

    @classmethod
    @contextlib.asynccontextmanager
    async def connect(cls, data: Path) -> AsyncIterator[Self]:
        host, port, user, password = login(data)
        client = await nats.connect(f"nats://{host}:{port}", user=user, password=password)
        outsider = cls(client, data)
        try:
            await client.subscribe("cloche.log.>", cb=outsider._hear)
            await client.flush()
            yield outsider
        finally:
            await client.close()

    async def _hear(self, msg: Msg) -> None:
        self.heard.append(Heard(msg.subject, json.loads(msg.data)))
        self._news.set()

    async def until(self, enough: Callable[[list[Heard]], Any], *, within_s: float = PATIENCE_S) -> Any:
        """Waits for events until `enough` of those heard so far is true, and returns that."""
        async with asyncio.timeout(within_s):
            while not (found := enough(self.heard)):
                self._news.clear()
                await self._news.wait()
        return found

    async def order(
        self,
        type_: str,
        sandbox: str,
        data: dict[str, Any],
        *,
        id_: str | None = None,
        node: str = "local",
        msg_id: bool = False,
    ) -> str:
        """Plain JSON with nothing but what a person would write; returns its id."""
        id_ = id_ or f"o-{secrets.token_hex(8)}"
        payload = json.dumps({"id": id_, "type": type_, "data": data}).encode()
        headers = {"Nats-Msg-Id": id_} if msg_id else None
        await self.nats.publish(f"cloche.cmd.{node}.{sandbox}.{type_}", payload, headers=headers)
        return id_

    async def create(self, sandbox: str) -> None:
        await self.order("sandbox.create", sandbox, {}, node="any")
        await self.until(lambda heard: of(heard, f"cloche.log.{sandbox}.sandbox.started"))

    async def run(self, sandbox: str, shell: str) -> str:
        """Runs to the end; returns what it wrote to stdout."""
        return await self.output(sandbox, await self.order("command.run", sandbox, {"shell": shell}))

    async def output(self, sandbox: str, exec_id: str) -> str:
        await self.until(lambda heard: ends(heard, sandbox, exec_id))
        said = of(self.heard, f"cloche.log.{sandbox}.command.output.{exec_id}")
        return "".join(event.data["data"] for event in said if event.data["stream"] == "stdout")

    async def ask(self, verb: str, query: bytes = b"") -> dict[str, Any]:
        reply = await self.nats.request(f"cloche.rpc.state.{verb}", query, timeout=10)
        return dict(json.loads(reply.data))

    async def publish_raw(self, *messages: tuple[bytes, bytes, bytes | None]) -> None:
        """What no client library would let through: `(subject, payload, headers)` straight onto the wire."""
        host, port, user, password = login(self._data)
        reader, writer = await asyncio.open_connection(host, port)
        try:
            await reader.readline()
            connect = {"user": user, "pass": password, "verbose": False, "pedantic": False, "headers": True}
            writer.write(b"CONNECT %b\r\n" % json.dumps(connect).encode())
            for subject, payload, headers in messages:
                if headers is None:
                    writer.write(b"PUB %b %d\r\n%b\r\n" % (subject, len(payload), payload))
                else:
                    whole = headers + payload
                    writer.write(b"HPUB %b %d %d\r\n%b\r\n" % (subject, len(headers), len(whole), whole))
            writer.write(b"PING\r\n")
            async with asyncio.timeout(PATIENCE_S):
                while (line := await reader.readline()) != b"PONG\r\n":
                    assert not line.startswith(b"-ERR"), line
                    assert line, "the server hung up"
        finally:
            writer.close()
            await writer.wait_closed()


def of(heard: list[Heard], subject: str) -> list[Heard]:
    return [event for event in heard if event.subject == subject]


def ends(heard: list[Heard], sandbox: str, exec_id: str) -> list[Heard]:
    wanted = {f"cloche.log.{sandbox}.command.{kind}.{exec_id}" for kind in ENDS}
    return [event for event in heard if event.subject in wanted]


def letters(heard: list[Heard]) -> list[Heard]:
    return [event for event in heard if event.type.startswith("dead_letter.")]
