"""One page of a stream, by direct get: no consumer is made, so reading needs no right that could write.

Where several servers keep the stream any of them answers, also one that lags behind: so an end is an end only if the
leader says so too (`infra.bus.replicas`).
"""

import asyncio
import datetime
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from nats import errors as nats_errors

from contracts.errors import ClocheError, Unavailable
from contracts.streams import LOG_STREAM
from infra.bus import headers, replicas
from infra.bus.connection import REQUEST_TIMEOUT_S, Bus
from infra.bus.errors import ApiError, NobodyAnswers
from infra.bus.replies import NO_RESPONDERS

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
        return time_of(self.stored_at)


def time_of(stored_at: str) -> datetime.datetime:
    """As servers write it, to the nanosecond."""
    whole, _, fraction = stored_at.removesuffix("Z").partition(".")
    return datetime.datetime.fromisoformat(f"{whole}.{fraction[:6]:0<6}+00:00")


_stored = headers.STORED.fullmatch


def entry_of(data: bytes, raw: bytes | None) -> Entry | None:
    """From what the server sends with a stored message; None if this is none."""
    if raw is not None and (usual := _stored(raw)) is not None:
        msg_id, subject, seq, stored_at = usual.groups()
        return Entry(
            int(seq),
            subject.decode("utf-8", "replace"),
            data,
            stored_at.decode(),
            msg_id.decode("utf-8", "replace"),
            raw,
        )
    return _unusual(data, raw)


def _unusual(data: bytes, raw: bytes | None) -> Entry | None:
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
        # Who asked may have gone away before the answer.
        self.done.add_done_callback(lambda done: done.cancelled() or done.exception())

    def on_message(self, _subject: bytes, _reply: bytes, data: bytes, raw: bytes | None) -> None:
        # A sequence tells a stored message: its publisher may have written a status into its headers.
        if (entry := entry_of(data, raw)) is not None:
            self.entries.append(entry)
        else:
            self._on_status(headers.status(raw), raw or b"")

    def _on_status(self, status: int, raw: bytes) -> None:
        if status == 0:
            self.on_failure(Unavailable("the server sent a message without a sequence"))
        elif status == END_OF_BATCH:
            self._finish(int(headers.get(raw, b"Nats-Num-Pending") or 0))
        elif status == NOT_FOUND:
            self._finish(0)
        elif status == NO_RESPONDERS:
            self.on_failure(NobodyAnswers("the stream is not there, or not answering"))
        else:
            text = raw[9:].decode("utf-8", "replace").strip()
            self.on_failure(ApiError(f"direct get: {text}", number=0, status=status))

    def on_failure(self, error: ClocheError) -> None:
        if not self.done.done():
            self.done.set_exception(error)

    def _finish(self, pending: int) -> None:
        if not self.done.done():
            self.done.set_result(pending)


class Asked:
    """A page on its way. Whoever asked takes it or forgets it."""

    def __init__(self, bus: Bus, stream: str, body: dict[str, Any], *, stop: int | None = None) -> None:
        """Nothing beyond sequence `stop` is wanted."""
        self._bus = bus
        self._stream = stream
        self._body = body
        self._stop = stop
        self._subject = f"{bus.api_prefix}.DIRECT.GET.{stream}"
        self._collector = _Collector()
        self._token = ""

    async def send(self) -> None:
        payload, collector = json.dumps(self._body).encode(), self._collector
        try:
            self._token = await self._bus.replies.send_raw(
                self._subject, payload, collector.on_message, collector.on_failure
            )
        except nats_errors.Error as error:
            raise Unavailable(f"not connected to {self._bus.url}: {error}") from None

    async def take(self) -> Page:
        """When it is whole. Raises what `fetch` raises."""
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S * 2):
                pending = await self._collector.done
        except TimeoutError:
            raise Unavailable(f"no whole answer on {self._subject} within {REQUEST_TIMEOUT_S * 2:g} s") from None
        finally:
            self.forget()
        found = Page(self._collector.entries, pending)
        return found if pending or self._is_enough(found) else await self._to_the_end(found)

    def _is_enough(self, found: Page) -> bool:
        return "next_by_subj" not in self._body or (
            self._stop is not None and bool(found.entries) and found.entries[-1].seq >= self._stop
        )

    async def _to_the_end(self, found: Page) -> Page:
        """With the next one that the leader has, if the server that answered lags behind.

        A full page is asked for no more: whoever wants what follows it will ask for that.
        """
        if not await replicas.are_several(self._bus, self._stream):
            return found
        if len(found.entries) == self._body["batch"]:
            return Page(found.entries, 1)
        begin: dict[str, Any] = {key: self._body[key] for key in ("seq", "start_time") if key in self._body}
        if found.entries:
            begin = {"seq": found.entries[-1].seq + 1}
        more = await _of_leader(self._bus, self._stream, {"next_by_subj": self._body["next_by_subj"], **begin})
        return found if more is None else Page([*found.entries, more], 1)

    def forget(self) -> None:
        self._bus.replies.forget(self._token)


async def ask(
    bus: Bus,
    filter_: str,
    start: int,
    *,
    limit: int = PAGE_ENTRIES,
    max_bytes: int = PAGE_BYTES,
    since: datetime.datetime | str | None = None,
    stream: str = LOG_STREAM,
    stop: int | None = None,
) -> Asked:
    """Like `fetch`, which waits for the answer. Raises `Unavailable` when not connected."""
    body: dict[str, Any] = {"next_by_subj": filter_, "batch": limit, "max_bytes": max_bytes}
    moment = since.isoformat() if isinstance(since, datetime.datetime) else since
    body |= {"seq": max(start, 1)} if moment is None else {"start_time": moment}
    asked = Asked(bus, stream, body, stop=stop)
    await asked.send()
    return asked


async def fetch(
    bus: Bus,
    filter_: str,
    start: int,
    *,
    limit: int = PAGE_ENTRIES,
    max_bytes: int = PAGE_BYTES,
    since: datetime.datetime | str | None = None,
    stream: str = LOG_STREAM,
    stop: int | None = None,
) -> Page:
    """Up to `limit` messages and about `max_bytes` that match, in order, from sequence `start` (or time `since`).

    Costs in proportion to what matches. What lies beyond `stop` may be missing. What the store cannot read any more is
    passed over: see `infra.bus.gaps`.
    Raises `Unavailable` (not connected, lost on the way, no answer in time), `NobodyAnswers` (no such stream),
    `Denied`.
    """
    asked = await ask(bus, filter_, start, limit=limit, max_bytes=max_bytes, since=since, stream=stream, stop=stop)
    return await asked.take()


async def fetch_last(bus: Bus, filter_: str, *, stream: str = LOG_STREAM) -> Entry | None:
    """The newest message that matches. Raises what `fetch` raises."""
    body = {"last_by_subj": filter_}
    if await replicas.are_several(bus, stream):
        return await _of_leader(bus, stream, body)
    return await _one(bus, stream, body)


async def fetch_lasts(
    bus: Bus, subjects: Sequence[str], *, up_to: int | None = None, stream: str = LOG_STREAM
) -> list[Entry]:
    """The newest message of each subject that has one, `up_to` a sequence: 1,000 at most, wildcards count as many.

    Where several servers keep the stream, a subject that was stored again in the last moment may come as it was before,
    and a wildcard may lack what is new. A subject that is named is missing only if the leader lacks it too.
    Raises what `fetch` raises.
    """
    body: dict[str, Any] = {"multi_last": list(subjects), "batch": PAGE_ENTRIES}
    body |= {} if up_to is None else {"up_to_seq": up_to}
    found = (await _collect(bus, stream, body)).entries
    missing = {each for each in subjects if not {"*", ">"} & set(each.split("."))} - {each.subject for each in found}
    if missing and await replicas.are_several(bus, stream):
        asked = [await _of_leader(bus, stream, {"last_by_subj": each}) for each in sorted(missing)]
        found += [entry for entry in asked if entry is not None and (up_to is None or entry.seq <= up_to)]
    return found


async def fetch_one(bus: Bus, seq: int, *, stream: str = LOG_STREAM) -> Entry | None:
    """The message with exactly this sequence. Raises what `fetch` raises."""
    found = await _one(bus, stream, {"seq": seq})
    if found is None and await replicas.are_several(bus, stream):
        return await _of_leader(bus, stream, {"seq": seq})
    return found


async def _of_leader(bus: Bus, stream: str, body: dict[str, Any]) -> Entry | None:
    answer = await replicas.ask_leader(bus, stream, body)
    return None if answer is None else entry_of(*answer)


async def _one(bus: Bus, stream: str, body: dict[str, Any]) -> Entry | None:
    collector = _Collector()
    reply = await bus.request(f"{bus.api_prefix}.DIRECT.GET.{stream}", json.dumps(body).encode())
    collector.on_message(b"", b"", reply.data, reply.headers)
    if collector.done.done():
        await collector.done
    return collector.entries[0] if collector.entries else None


async def _collect(bus: Bus, stream: str, body: dict[str, Any]) -> Page:
    asked = Asked(bus, stream, body)
    await asked.send()
    return await asked.take()
