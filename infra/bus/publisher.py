"""The only way into the log: every message has an id, and is repeated under it until the server has it."""

import asyncio
import datetime
import json
from typing import Any, NamedTuple

from contracts.errors import Conflict, Invalid, Unavailable
from contracts.streams import DEDUPE_WINDOW_S, LOG_STREAM
from infra import asking
from infra.bus import message_ids, page
from infra.bus.connection import Bus
from infra.bus.errors import NOTHING_THERE, WRONG_LAST_SEQUENCE, ApiError
from infra.observing import catalogue, spans
from infra.observing.stored import stored

ACK_TIMEOUT_S = 5.0
FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 2.0
DEDUPE_SAFE_S = DEDUPE_WINDOW_S * 0.75
"""Past this age the server may have forgotten an id, so the log is asked before a message is sent again.

By the monotonic clock: the wall clock may jump, and be another than the server's.
"""
PASSING = frozenset({408, 409, 429})
"""What a leader says to a message whose first copy it has not settled yet, or when it has too much in hand."""
CLOCK_SLACK = datetime.timedelta(seconds=60)

MSG_ID = "Nats-Msg-Id"
EXPECTED_SEQUENCE = "Nats-Expected-Last-Subject-Sequence"
EXPECTED_SUBJECT = "Nats-Expected-Last-Subject-Sequence-Subject"


class Ack(NamedTuple):
    seq: int
    duplicate: bool


class Expect(NamedTuple):
    """The append is refused unless `seq` is the last sequence of what `filter` matches (0 = nothing yet)."""

    filter: str
    seq: int

    @property
    def headers(self) -> dict[str, str]:
        return {EXPECTED_SEQUENCE: str(self.seq), EXPECTED_SUBJECT: self.filter}


def parse_ack(data: bytes) -> Ack:
    """Raises `ApiError` where the server refused to store."""
    try:
        answer: Any = json.loads(data)
        if error := answer.get("error"):
            raise ApiError(str(error.get("description")), number=error.get("err_code", 0), status=error.get("code", 0))
        return Ack(int(answer["seq"]), bool(answer.get("duplicate", False)))
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise Unavailable(f"the server's acknowledgement cannot be read: {data[:200]!r}") from error


def is_permanent(error: ApiError) -> bool:
    return 400 <= error.status < 500 and error.status not in PASSING


async def append(
    bus: Bus,
    subject: str,
    payload: bytes,
    msg_id: str,
    *,
    expect: Expect | None = None,
    timeout_s: float | None = None,
    stream: str = LOG_STREAM,
    more_headers: dict[str, str] | None = None,
) -> Ack:
    """Store one message exactly once and return its sequence.

    Repeated under the same id through lost connections, restarts and time-outs: for ever, or for `timeout_s`.
    If the message is already stored, by an earlier attempt or an earlier life of the caller, the answer is its
    sequence with `duplicate` set, also where `expect` no longer holds because of it.
    Only a work queue may forget: a command that was already taken is stored again after the dedupe window.

    Raises `Conflict` (`expect` does not hold, and this id is not what broke it), `Denied` (not this user's to write),
    `Invalid` (too large, not a subject, refused for good), `Unavailable` (only with `timeout_s`: it may or may not
    be stored).
    """
    if stream == LOG_STREAM:
        payload = bus.redactor.mask_event(payload)
        # A fact is found by its trace, and whoever goes on after a crash finds the trace by the fact.
        more_headers = (asking.trace_headers() if spans.is_on() else None) or more_headers
    headers = {MSG_ID: msg_id, **(more_headers or {})}
    if expect is not None:
        headers |= expect.headers
    loop = asyncio.get_running_loop()
    begun = loop.time()
    deadline = None if timeout_s is None else loop.time() + timeout_s
    pause = FIRST_PAUSE_S
    while True:
        try:
            ack = await _attempt(bus, subject, payload, headers, expect, begun, stream)
            if stream == LOG_STREAM and not ack.duplicate:
                stored(bus.service, subject, len(payload))
            return ack
        except Conflict:
            raise
        except Unavailable as error:
            if deadline is not None and loop.time() + pause > deadline:
                raise Unavailable(f"{subject}: not stored within {timeout_s:g} s: {error}") from error
        catalogue.publish_retries.add(bus.service)
        await _pause(bus, pause, deadline)
        pause = min(pause * 2, LONGEST_PAUSE_S)


async def _attempt(
    bus: Bus,
    subject: str,
    payload: bytes,
    headers: dict[str, str],
    expect: Expect | None,
    begun: float,
    stream: str,
) -> Ack:
    msg_id = headers[MSG_ID]
    if stream != LOG_STREAM:
        return await _ask(bus, subject, payload, headers, expect, stream)
    if asyncio.get_running_loop().time() - begun > DEDUPE_SAFE_S and (seq := await find(bus, subject, msg_id)):
        return Ack(seq, True)
    ack = await _ask(bus, subject, payload, headers, expect, stream)
    if not ack.duplicate or await message_ids.holds(bus, ack.seq, subject, msg_id):
        return ack
    # An earlier life may have met the same.
    if seq := await find(bus, subject, msg_id):
        return Ack(seq, True)
    return await _ask(bus, subject, payload, headers | {MSG_ID: message_ids.another(msg_id)}, expect, stream)


async def _ask(
    bus: Bus, subject: str, payload: bytes, headers: dict[str, str], expect: Expect | None, stream: str
) -> Ack:
    reply = await bus.request(subject, payload, headers=headers, timeout=ACK_TIMEOUT_S)
    try:
        return parse_ack(reply.data)
    except ApiError as error:
        if error.number in WRONG_LAST_SEQUENCE and expect is not None:
            if error.message.endswith(NOTHING_THERE) and await is_newest(bus, expect, stream):
                empty = expect._replace(seq=0)
                return await _ask(bus, subject, payload, headers | empty.headers, empty, stream)
            return await _conflict(bus, subject, headers[MSG_ID], expect, stream)
        if is_permanent(error):
            raise Invalid(f"{subject}: {error.message}", **error.details) from error
        raise Unavailable(f"{subject}: {error.message}") from error


async def is_newest(bus: Bus, expect: Expect, stream: str = LOG_STREAM) -> bool:
    """The server takes a subject for empty when the newest message of it has rotted: nobody could ever move it again.

    What is expected is the newest that anybody can read, then. Whoever writes meanwhile makes it not empty.
    """
    if not expect.seq:
        return False
    found = await page.fetch(bus, expect.filter, expect.seq, limit=2, stream=stream)
    return [entry.seq for entry in found.entries] == [expect.seq]


async def _conflict(bus: Bus, subject: str, msg_id: str, expect: Expect, stream: str) -> Ack:
    """The guard does not hold. If our own earlier attempt is what moved it, that is success."""
    seq = await find(bus, subject, msg_id, after=expect.seq, stream=stream)
    if seq is not None:
        return Ack(seq, True)
    details = {"filter": expect.filter, "expected": str(expect.seq)}
    raise Conflict(f"{expect.filter} has moved past sequence {expect.seq}", **details)


async def find(
    bus: Bus,
    subject: str,
    msg_id: str,
    *,
    after: int = 0,
    since: datetime.datetime | None = None,
    stream: str = LOG_STREAM,
) -> int | None:
    """The sequence of the message with this id on this subject, or None. Looks after a sequence or since a time."""
    start = after + 1
    begin = None if since is None else since - CLOCK_SLACK
    while True:
        found = await page.fetch(bus, subject, start, since=begin, stream=stream)
        for entry in found.entries:
            if message_ids.is_of(entry.msg_id, msg_id):
                return entry.seq
        if not found.entries or not found.pending:
            return None
        start, begin = found.entries[-1].seq + 1, None


async def _pause(bus: Bus, seconds: float, deadline: float | None) -> None:
    await asyncio.sleep(seconds)
    try:
        async with asyncio.timeout_at(deadline):
            await bus.wait_connected()
    except TimeoutError:
        raise Unavailable(f"not connected to {bus.url}") from None
