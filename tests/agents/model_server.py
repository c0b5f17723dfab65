"""A model that answers by script, over TLS on an address of its own: Anthropic Messages and OpenAI chat completions.

It runs in the loop of the test, so events of the test release its streams. From a sandbox it is reached only through
egress, which adds the key: see `secret`.
"""

import asyncio
import json
import secrets
import ssl
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from infra.secrets.store import SecretStore
from tests.agents import completions_dialect, messages_dialect
from tests.agents.script import Fails, Garbage, Reply, Turn, reply
from tests.egress.authority import Authority
from tests.egress.settings import write_settings

HOST = "api.model.test"
SECRET = "model"
KEY = "sk-model-" + secrets.token_urlsafe(24)
HEAD_LIMIT = 1 << 20
DEADLINE_S = 60.0
SIDE_ANSWER = reply("ok")
"""To requests that offer no tools: titles, topics and the like, which clients ask for beside the conversation."""


class Asked(NamedTuple):
    method: str
    path: str
    headers: Mapping[str, str]
    """By lower-case names."""
    body: Mapping[str, Any]
    marker: str | None = None
    """Of the script that answered; None = it was not asked for a turn of any."""

    @property
    def messages(self) -> list[dict[str, Any]]:
        return list(self.body.get("messages", ()))

    @property
    def shown(self) -> str:
        """Everything that the model was shown of the conversation, as JSON."""
        return json.dumps(self.messages, ensure_ascii=False)


class ModelServer:
    """Answers each request by the next turn of its script. A script that is at its end answers 400."""

    def __init__(self) -> None:
        self.address = f"127.7.{secrets.randbelow(256)}.{secrets.randbelow(254) + 1}"
        self.port = 0
        self.asked: list[Asked] = []
        self._scripts: dict[str, deque[Turn]] = {}
        self._players: dict[str, Callable[[Asked], Turn]] = {}
        self._changed = asyncio.Condition()
        self._serving: set[asyncio.Task[None]] = set()

    def script(self, marker: str, *turns: Turn) -> None:
        """The next turns of the conversation whose user last said a text that contains the marker.

        So several conversations can go on at once, and a subagent's prompt has a marker of its own. The empty marker
        takes what no other does.
        """
        self._scripts.setdefault(marker, deque()).extend(turns)

    def play(self, marker: str, player: Callable[[Asked], Turn]) -> None:
        """Instead of a script: what is answered follows from what is asked, so it does not matter how often."""
        self._players[marker] = player

    def turns(self, marker: str) -> list[Asked]:
        """What it was asked in that conversation, in order."""
        return [each for each in self.asked if each.marker == marker]

    async def until(self, condition: Callable[["ModelServer"], bool]) -> None:
        """Raises `TimeoutError` with what it was asked, where that does not come."""
        try:
            async with asyncio.timeout(DEADLINE_S), self._changed:
                await self._changed.wait_for(lambda: condition(self))
        except TimeoutError:
            raise TimeoutError(f"the model was asked {[(each.path, each.marker) for each in self.asked]}") from None

    def secret(self, env: str, *, header: str = "x-api-key", template: str = "{secret}") -> dict[str, Any]:
        """For `secrets` of a specification: the variable inside leads here, with the key added on the way."""
        place = {"name": SECRET, "host": HOST, "port": self.port}
        return {**place, "env": env, "header": header, "template": template}

    def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def aclose(self) -> None:
        """Cuts every connection."""
        serving = list(self._serving)
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            while (asked := await _read(reader)) is not None:
                if not await self._answer(asked, writer):
                    break
        writer.transport.abort()

    async def _answer(self, asked: Asked, writer: asyncio.StreamWriter) -> bool:
        """Whether the connection may be used again."""
        path = asked.path.partition("?")[0]
        dialect = DIALECTS.get(path) if asked.method == "POST" else None
        if dialect is None:
            await self._note(asked)
            await _send(writer, *_other(asked, path))
            return True
        marker, turn = self._next(asked)
        await self._note(asked._replace(marker=marker))
        return await _give(writer, dialect, turn, asked.body)

    def _next(self, asked: Asked) -> tuple[str | None, Turn]:
        if not asked.body.get("tools"):
            return None, SIDE_ANSWER
        known = [marker for marker in (*self._players, *self._scripts) if marker]
        said = [text for message in asked.messages for text in user_texts(message)]
        marker = next((marker for text in reversed(said) for marker in known if marker in text), "")
        if marker in self._players:
            return marker, self._players[marker](asked)
        turns = self._scripts.get(marker)
        if not turns:
            return marker, Fails(400, "invalid_request_error", f"the script {marker!r} has no more turns")
        return marker, turns.popleft()

    async def _note(self, asked: Asked) -> None:
        self.asked.append(asked)
        async with self._changed:
            self._changed.notify_all()


DIALECTS: dict[str, Any] = {"/v1/messages": messages_dialect, "/v1/chat/completions": completions_dialect}


async def _give(writer: asyncio.StreamWriter, dialect: Any, turn: Turn, body: Mapping[str, Any]) -> bool:
    model = str(body.get("model", "scripted"))
    match turn:
        case Fails():
            told = {} if turn.retry_after is None else {"retry-after": turn.retry_after}
            await _send(writer, turn.status, dialect.error(turn.kind, turn.message), **told)
        case Garbage():
            await _stream(writer, _once(turn.raw))
        case Reply() if body.get("stream"):
            await _stream(writer, dialect.streamed(turn, model), cut=turn.cut)
            return not turn.cut
        case Reply():
            await _send(writer, 200, await dialect.whole(turn, model))
    return True


def _other(asked: Asked, path: str) -> tuple[int, dict[str, Any]]:
    if path == "/v1/messages/count_tokens":
        return 200, {"input_tokens": len(asked.shown) // 4 + 1}
    if asked.method in ("GET", "HEAD"):
        return 200, {"data": [], "has_more": False}
    return 404, messages_dialect.error("not_found_error", f"{asked.method} {path}")


def user_texts(message: Mapping[str, Any]) -> list[str]:
    if message.get("role") != "user":
        return []
    content = message.get("content")
    if isinstance(content, str):
        return [content]
    return [str(block.get("text", "")) for block in content or () if block.get("type") == "text"]


async def _once(raw: bytes) -> AsyncIterator[bytes]:
    yield raw


async def _read(reader: asyncio.StreamReader) -> Asked | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.rstrip("\r\n").split("\r\n")
    method, path, _ = first.split(" ", 2)
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    raw = await _body(reader, headers)
    return Asked(method, path, headers, json.loads(raw) if raw else {})


async def _body(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> bytes:
    if headers.get("transfer-encoding", "").lower() != "chunked":
        return await reader.readexactly(int(headers.get("content-length", "0")))
    pieces = []
    while size := int(await reader.readline(), 16):
        pieces.append(await reader.readexactly(size))
        await reader.readline()
    await reader.readline()
    return b"".join(pieces)


async def _send(writer: asyncio.StreamWriter, status: int, body: dict[str, Any], **headers: str) -> None:
    raw = json.dumps(body).encode()
    told = {"content-type": "application/json", "content-length": str(len(raw)), **headers}
    writer.write(_head(status, told) + raw)
    await writer.drain()


async def _stream(writer: asyncio.StreamWriter, pieces: AsyncIterator[bytes], *, cut: bool = False) -> None:
    writer.write(_head(200, {"content-type": "text/event-stream", "transfer-encoding": "chunked"}))
    await writer.drain()
    async for piece in pieces:
        writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        await writer.drain()
    if not cut:
        writer.write(b"0\r\n\r\n")
        await writer.drain()


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} Scripted", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


@asynccontextmanager
async def model_server(place: Path) -> AsyncIterator[ModelServer]:
    """Serves until the end of the block. `place` is a directory for its certificate and the settings of a node.

    `place / "node"` is then the data folder of a node that has not started yet, by whose egress it can be reached.
    """
    authority = Authority(place / "authority")
    model = ModelServer()
    tls = authority.server_context(HOST)
    server = await asyncio.start_server(model.serve, model.address, 0, ssl=tls, limit=HEAD_LIMIT)
    model.port = server.sockets[0].getsockname()[1]
    write_settings(place / "node", {HOST: model.address}, authority.certificate)
    SecretStore(place / "node" / "vault", {}).put(SECRET, KEY.encode(), [HOST])
    async with server:
        try:
            yield model
        finally:
            await model.aclose()
