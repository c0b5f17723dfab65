"""One stream out of a server, and into one: as the server itself packs it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import msgspec

from contracts.errors import Unavailable
from infra.backup.contents import About, State
from infra.bus import headers
from infra.bus.connection import Bus
from infra.bus.errors import ApiError

CHUNK_BYTES = 512 * 1024
SILENCE_S = 60.0
ANSWER_S = 300.0
"""A server that takes a large stream in answers only when it has looked at all of it."""
NO_CONTENT = 204


class Snapshot(NamedTuple):
    about: About
    chunks: AsyncIterator[bytes]


@asynccontextmanager
async def snapshot(admin: Bus, stream: str) -> AsyncIterator[Snapshot]:
    """A stream as it is at one moment, while others go on writing to it. Holds a few megabytes, however large it is.

    Raises `ApiError` with the server's reason; the chunks raise `Unavailable` where they stop coming.
    """
    arrived: asyncio.Queue[_Chunk] = asyncio.Queue()
    inbox = admin.client.new_inbox()

    def take(_: bytes, reply: bytes, data: bytes, raw: bytes | None) -> None:
        arrived.put_nowait(_Chunk(reply.decode(), data, headers.status(raw)))

    number = await admin.tap(inbox, take)
    try:
        wanted = {"deliver_subject": inbox, "no_consumers": True, "chunk_size": CHUNK_BYTES}
        answer = await admin.api(f"STREAM.SNAPSHOT.{stream}", wanted, timeout=SILENCE_S)
        about = msgspec.convert({"config": answer["config"], "state": answer["state"]}, About)
        yield Snapshot(about, _chunks(admin, stream, arrived))
    finally:
        await admin.client.untap(number)


class _Chunk(NamedTuple):
    reply: str
    data: bytes
    status: int


async def _chunks(admin: Bus, stream: str, arrived: "asyncio.Queue[_Chunk]") -> AsyncIterator[bytes]:
    while True:
        try:
            async with asyncio.timeout(SILENCE_S):
                chunk = await arrived.get()
        except TimeoutError:
            raise Unavailable(f"{stream}: the server has stopped sending its snapshot") from None
        if not chunk.data:
            if chunk.status not in (0, NO_CONTENT):
                raise Unavailable(f"{stream}: the server has broken off its snapshot: status {chunk.status}")
            return
        yield chunk.data
        # The server sends a few megabytes ahead, and more for each that was taken. The last wants no word.
        if chunk.reply:
            await admin.publish(chunk.reply)


async def put_back(admin: Bus, config: dict[str, Any], state: State, chunks: AsyncIterator[bytes]) -> None:
    """Makes the stream, with these settings. Raises `ApiError` with the server's reason.

    What was packed may bring consumers, which could deliver anywhere: none of them is left.
    """
    name = config["name"]
    wanted = {"config": config, "state": msgspec.to_builtins(state)}
    subject = (await admin.api(f"STREAM.RESTORE.{name}", wanted, timeout=SILENCE_S))["deliver_subject"]
    async for chunk in chunks:
        _refused(name, (await admin.request(subject, chunk, timeout=SILENCE_S)).data)
    _refused(name, (await admin.request(subject, timeout=ANSWER_S)).data)
    while found := (await admin.api(f"CONSUMER.NAMES.{name}"))["consumers"]:
        for consumer in found:
            await admin.api(f"CONSUMER.DELETE.{name}.{consumer}")


def _refused(stream: str, answer: bytes) -> None:
    if not answer:
        return
    error = msgspec.json.decode(answer).get("error")
    if error:
        raise ApiError(
            f"{stream}: {error.get('description', error)}", number=error.get("err_code", 0), status=error.get("code", 0)
        )
