"""One service's pen: puts facts into envelopes and appends them to the log, and reads back what guards them."""

import datetime
import hashlib
from typing import NamedTuple

from msgspec import Struct

from contracts import codec, subjects
from contracts.errors import Failure, Invalid
from contracts.events.audit import DeadLetter
from contracts.ids import is_token
from contracts.message import Event, Fact
from contracts.payload import pack
from contracts.registry import scope_of, tag_of
from contracts.state import SandboxState
from infra import clock
from infra.bus import reader
from infra.bus.connection import Bus
from infra.bus.publisher import Expect, append
from infra.states import state_of

DEAD_LETTER_BYTES = 16 * 1024
REASON_CHARACTERS = 2000
DETAIL_CHARACTERS = 200


class Written(NamedTuple):
    """An event ready to be published."""

    subject: str
    payload: bytes
    id: str


class Journal:
    def __init__(self, bus: Bus, *, service: str, node: str) -> None:
        self._bus = bus
        self.service = service
        self.node = node

    def write(
        self,
        sandbox: str,
        fact: Fact,
        *,
        id: str,  # noqa: A002  CloudEvents calls it so
        command: str | None = None,
        time: datetime.datetime | None = None,
        tag: str | None = None,
        scope: str | None = None,
    ) -> Written:
        """`id` must be the same each time that this same fact is written: it is what makes a retry harmless."""
        tag = tag or tag_of(fact)
        event = Event(
            id=f"{self.service}.{id}",
            source=f"{self.service}/{self.node}",
            type=tag,
            time=time or clock.now(),
            sandboxid=sandbox,
            node=self.node,
            correlationid=command,
            data=fact,
        )
        return Written(subjects.event(sandbox, tag, scope or scope_of(fact)), codec.encode(event), event.id)

    async def append(self, written: Written, *, expect: Expect | None = None) -> int:
        """Returns its sequence. Raises what `infra.bus.publisher.append` raises."""
        ack = await append(self._bus, written.subject, written.payload, written.id, expect=expect)
        return ack.seq

    async def move(self, sandbox: str, fact: Fact, *, expected: int, command: str | None = None) -> int:
        """Append a lifecycle fact, if nobody else has moved the sandbox since sequence `expected`.

        Raises `Conflict` when somebody has.
        """
        # The node and the command tell rivals apart: the same id would make the loser believe that it has won.
        rival = hashlib.sha256(f"{self.node}/{command}".encode()).hexdigest()[:16]
        written = self.write(sandbox, fact, id=f"{sandbox}.{expected}.{tag_of(fact)}.{rival}", command=command)
        guard = Expect(subjects.lifecycle(sandbox), expected)
        ack = await append(self._bus, written.subject, written.payload, written.id, expect=guard)
        return ack.seq

    async def lifecycle(self, sandbox: str) -> SandboxState | None:
        """The sandbox's state as far as its lifecycle tells, straight from the log."""
        return await state_of(self._bus, sandbox)

    async def was_told(self, sandbox: str, tag: str, command: str) -> bool:
        """Whether the last event of this kind is the answer to this command. Raises `Unavailable`."""
        newest = await reader.last(self._bus, subjects.event(sandbox, tag))
        return newest is not None and codec.decode_head(newest.data).correlationid == command

    async def last(self, sandbox: str, tag: str) -> Fact | None:
        """The last fact of this kind; None where there is none that can be read. Raises `Unavailable`."""
        newest = await reader.last(self._bus, subjects.event(sandbox, tag))
        return None if newest is None else codec.decode_fact(codec.decode_head(newest.data))

    def dead_letter(self, subject: str, raw: bytes, failure: Failure, *, delivered: int, sequence: int) -> Written:
        """`sequence` is the message's own in the command stream: one dead letter each, however often it is written."""
        packed = pack(raw[:DEAD_LETTER_BYTES])
        failure = Failure(
            code=failure.code,
            message=failure.message[:REASON_CHARACTERS],
            retryable=failure.retryable,
            details={name: value[:DETAIL_CHARACTERS] for name, value in failure.details.items()},
        )
        letter = DeadLetter(
            subject=subject,
            reason=failure,
            delivered=delivered,
            size=len(raw),
            data=packed.data,
            encoding=packed.encoding,
            truncated=len(raw) > DEAD_LETTER_BYTES,
        )
        command = _command_id(raw)
        return self.write(
            subjects.sandbox_of(subject),
            letter,
            id=f"dead.{sequence}",
            command=command,
            tag=f"{subjects.DEAD_LETTER}.{self.service}",
            scope=command,
        )


class _Identified(Struct):
    id: str


def _command_id(raw: bytes) -> str | None:
    """The id inside a command that may be anything at all."""
    try:
        found: _Identified = codec.decode(raw, _Identified)
    except Invalid:
        return None
    return found.id if is_token(found.id) else None
