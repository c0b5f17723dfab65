"""One page of a stream, by direct get: no consumer is made, so reading needs no right that could write."""

import asyncio
import datetime
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from nats import errors as nats_errors

from contracts.errors import ClocheError, Unavailable
from contracts.streams import LOG_STREAM
from infra.bus import headers
from infra.bus.connection import REQUEST_TIMEOUT_S, Bus
from infra.bus.errors import ApiError, NobodyAnswers
from infra.bus.replies import NO_RESPONDERS, Reply

PAGE_ENTRIES = 1000
PAGE_BYTES = 4 * 1024 * 1024

END_OF_BATCH = 204
NOT_FOUND = 404


class Entry(NamedTuple):
    """A stored message, with its payload untouched."""

    seq: int
    subject: str
    data: bytes
    stored_at: str
    """RFC 3339, by the server's clock."""
    msg_id: str
    headers: bytes = b""

    @property
    def time(self) -> datetime.datetime:
        text = self.stored_at.removesuffix("Z")
        whole, _, fraction = text.partition(".")
        return datetime.datetime.fromisoformat(f"{whole}.{fraction[:6]:0<6}+00:00")


def entry_of(data: bytes, raw: bytes | None) -> Entry | None:
    """From what the server sends with a stored message; None if this is none."""
    seq = headers.get(raw, b"Nats-Sequence")
    if seq is None or not seq.isdigit():
        return None
    subject = headers.get(raw, b"Nats-Subject") or ""
    stored_at = headers.get(raw, b"Nats-Time-Stamp") or ""
    return Entry(int(seq), subject, data, stored_at, headers.get(raw, b"Nats-Msg-Id") or "", raw or b"")


class Page(NamedTuple):
    entries: list[Entry]
    pending: int
    """How many more match after the last entry, as of this page."""


class _Collector:
    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.done: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def on_reply(self, reply: Reply) -> None:
        status = reply.status
        # A sequence tells a stored message: its publisher may have written a status into its headers.
        if (entry := entry_of(reply.data, reply.headers)) is not None:
            self.entries.append(entry)
        elif status == 0:
            self.on_failure(Unavailable("the server sent a message without a sequence"))
        elif status == END_OF_BATCH:
            self._finish(int(headers.get(reply.headers, b"Nats-Num-Pending") or 0))
        elif status == NOT_FOUND:
            self._finish(0)
        elif status == NO_RESPONDERS:
            self.on_failure(NobodyAnswers("the stream is not there, or not answering"))
        else:
            text = (reply.headers or b"")[9:].decode("utf-8", "replace").strip()
            self.on_failure(ApiError(f"direct get: {text}", number=0, status=status))

    def on_failure(self, error: ClocheError) -> None:
        if not self.done.done():
            self.done.set_exception(error)

    def _finish(self, pending: int) -> None:
        if not self.done.done():
            self.done.set_result(pending)


async def fetch(
    bus: Bus,
    filter_: str,
    start: int,
    *,
    limit: int = PAGE_ENTRIES,
    max_bytes: int = PAGE_BYTES,
    since: datetime.datetime | None = None,
    stream: str = LOG_STREAM,
) -> Page:
    """Up to `limit` messages and about `max_bytes` that match, in order, from sequence `start` (or time `since`).

    Costs in proportion to what matches. Raises `Unavailable` (not connected, lost on the way, no answer in time),
    `NobodyAnswers` (no such stream), `Denied`.
    """
    body: dict[str, Any] = {"next_by_subj": filter_, "batch": limit, "max_bytes": max_bytes}
    body |= {"start_time": since.isoformat()} if since is not None else {"seq": max(start, 1)}
    return await _collect(bus, stream, body)


async def fetch_last(bus: Bus, filter_: str, *, stream: str = LOG_STREAM) -> Entry | None:
    """The newest message that matches. Raises what `fetch` raises."""
    return await _one(bus, stream, {"last_by_subj": filter_})


async def fetch_lasts(
    bus: Bus, subjects: Sequence[str], *, up_to: int | None = None, stream: str = LOG_STREAM
) -> list[Entry]:
    """The newest message of each subject that has one, `up_to` a sequence: 1,000 at most, wildcards count as many.

    Raises what `fetch` raises.
    """
    body: dict[str, Any] = {"multi_last": list(subjects), "batch": PAGE_ENTRIES}
    body |= {} if up_to is None else {"up_to_seq": up_to}
    return (await _collect(bus, stream, body)).entries


async def fetch_one(bus: Bus, seq: int, *, stream: str = LOG_STREAM) -> Entry | None:
    """The message with exactly this sequence. Raises what `fetch` raises."""
    return await _one(bus, stream, {"seq": seq})


async def _one(bus: Bus, stream: str, body: dict[str, Any]) -> Entry | None:
    collector = _Collector()
    reply = await bus.request(f"{bus.api_prefix}.DIRECT.GET.{stream}", json.dumps(body).encode())
    collector.on_reply(reply)
    if collector.done.done():
        await collector.done
    return collector.entries[0] if collector.entries else None


async def _collect(bus: Bus, stream: str, body: dict[str, Any]) -> Page:
    collector = _Collector()
    subject = f"{bus.api_prefix}.DIRECT.GET.{stream}"
    try:
        token = await bus.replies.send(subject, json.dumps(body).encode(), collector.on_reply, collector.on_failure)
    except nats_errors.Error as error:
        raise Unavailable(f"not connected to {bus.url}: {error}") from None
    try:
        async with asyncio.timeout(REQUEST_TIMEOUT_S * 2):
            pending = await collector.done
    except TimeoutError:
        raise Unavailable(f"no whole answer on {subject} within {REQUEST_TIMEOUT_S * 2:g} s") from None
    finally:
        bus.replies.forget(token)
    return Page(collector.entries, pending)
