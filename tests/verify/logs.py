"""Logs with their checkpoints, made by hand, and what is found in them."""

import datetime
import hashlib
from collections.abc import Callable, Iterable
from typing import NamedTuple

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec.structs import replace

from contracts import chain, subjects
from contracts.anchoring import Kept
from contracts.chain import Message, Range
from contracts.codec import decode_fact, decode_head, encode
from contracts.events.audit import AuditCheckpoint, AuditRotated
from contracts.message import Event, Fact
from contracts.registry import scope_of, tag_of
from contracts.verifying import Scope, Trust, Verdict, Verifier
from infra.audit.signing import public_of, sign, verify

LOG = "log-of-tests"
START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def key_of(seed: str) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(hashlib.sha256(seed.encode()).digest())


ALL = Scope()
NOBODY = Trust()
KEY = key_of("first")
OTHER = key_of("other")


def time_of(sequence: int) -> datetime.datetime:
    return START + datetime.timedelta(seconds=sequence)


def signed(checkpoint: AuditCheckpoint, key: Ed25519PrivateKey) -> AuditCheckpoint:
    named = replace(checkpoint, key=public_of(key))
    return replace(named, signature=sign(key, chain.statement(named)))


def stored(sequence: int, subject: str, payload: bytes) -> Message:
    return Message(sequence, subject, f"id-{sequence}", f"{time_of(sequence):%Y-%m-%dT%H:%M:%S}.123456789Z", payload)


def enveloped(sequence: int, sandbox: str, fact: Fact) -> bytes:
    tag = tag_of(fact)
    return encode(
        Event(id=f"id-{sequence}", source="tests", type=tag, time=time_of(sequence), sandboxid=sandbox, data=fact)
    )


class Log:
    """Messages with the sequences 1, 2, 3 …"""

    def __init__(self, key: Ed25519PrivateKey = KEY, name: str = LOG, first: int = 1) -> None:
        self.name = name
        self.key = key
        self.messages: list[Message] = []
        self.anchors: list[Kept] = []
        self._next = first
        self._covered = first - 1
        self._previous = chain.genesis(name)

    @property
    def last(self) -> int:
        return self._next - 1

    def put(self, subject: str, payload: bytes) -> int:
        self.messages.append(stored(self._next, subject, payload))
        self._next += 1
        return self.last

    def event(self, sandbox: str, text: str = "x") -> int:
        return self.put(f"cloche.log.{sandbox}.user.message.run", encode({"data": {"text": text}}))

    def fact(self, sandbox: str, fact: Fact) -> int:
        subject = subjects.event(sandbox, tag_of(fact), scope_of(fact))
        return self.put(subject, enveloped(self._next, sandbox, fact))

    def lose(self, count: int) -> None:
        """The store loses what comes next."""
        self._next += count

    def checkpoint(self, *, leaves: int = 0) -> int:
        """Of everything since the last one, but for the last few. Returns its sequence."""
        grown = Range(self.name, self._covered + 1, self._previous)
        for message in self.messages:
            if self._covered < message.sequence <= self.last - leaves:
                if message.sequence > grown.next:
                    grown.add_missing(grown.next, message.sequence - 1)
                grown.add(message)
        said = signed(grown.checkpoint(""), self.key)
        self._covered, self._previous = said.last_sequence, said.hash
        self.anchors.append(Kept(chain.anchor(said, time_of(self._next)), lambda: said.leaves))
        return self.fact(subjects.NO_SANDBOX, said)

    def rotate(self, following: Ed25519PrivateKey, *, by: Ed25519PrivateKey | None = None, lost: bool = False) -> int:
        fact = AuditRotated(
            log=self.name, key=public_of(self.key), next=public_of(following), signature="", proof="", reason="asked"
        )
        said = chain.rotation_statement(fact)
        signature = "" if lost else sign(by or self.key, said)
        self.key = following
        return self.fact(subjects.NO_SANDBOX, replace(fact, signature=signature, proof=sign(following, said)))

    def of(self, sandbox: str) -> list[Message]:
        """What an export of one sandbox has."""
        audit = f"cloche.log.{subjects.NO_SANDBOX}.audit."
        return [
            message
            for message in self.messages
            if subjects.sandbox_of(message.subject) == sandbox or message.subject.startswith(audit)
        ]


class Found(NamedTuple):
    sequence: int
    fault: str


def verdict_of(messages: Iterable[Message], scope: Scope = ALL, trust: Trust = NOBODY) -> Verdict:
    verifier = Verifier(verify, scope, trust)
    for message in messages:
        verifier.feed(message)
    return verifier.finish()


def found(messages: Iterable[Message], scope: Scope = ALL, trust: Trust = NOBODY) -> list[Found]:
    return [Found(each.sequence, each.fault) for each in verdict_of(messages, scope, trust).findings]


Change = Callable[[Message], Message]


def changed(messages: list[Message], sequence: int, change: Change) -> list[Message]:
    return [change(message) if message.sequence == sequence else message for message in messages]


def without(messages: list[Message], *sequences: int) -> list[Message]:
    return [message for message in messages if message.sequence not in sequences]


def said_in(message: Message) -> AuditCheckpoint:
    """The checkpoint that a message holds."""
    fact = decode_fact(decode_head(message.payload))
    assert isinstance(fact, AuditCheckpoint)
    return fact


def saying(message: Message, checkpoint: AuditCheckpoint) -> Message:
    return message._replace(payload=enveloped(message.sequence, subjects.NO_SANDBOX, checkpoint))
