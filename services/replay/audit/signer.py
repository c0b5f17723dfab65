"""The key that signs: found, made, replaced. The log says which one counts; the files only hold it."""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from contracts import chain, subjects
from contracts.errors import Invalid, Unavailable
from contracts.events.audit import AuditCheckpoint, AuditRotated
from infra.bus import publisher, reader
from infra.bus.connection import Bus
from infra.bus.publisher import Expect, append
from infra.bus.reader import patiently
from infra.journal import Journal, Written
from infra.watching.threads import in_thread
from services.replay.audit import past_checkpoints
from services.replay.audit.past_checkpoints import ROTATIONS, KeyNamed

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from infra.audit.keys import Keys

logger = logging.getLogger(__name__)

LOST = "the file with the key is lost"


class Elsewhere(Unavailable):
    """Another node signs this log."""


class Signer:
    """One thing at a time: nothing is signed by a key while it is being replaced."""

    def __init__(self, bus: Bus, journal: Journal, directory: Path) -> None:
        self._bus = bus
        self._journal = journal
        self._directory = directory
        self._turn = asyncio.Lock()
        self._loaded: Keys | None = None
        self._key: Ed25519PrivateKey | None = None
        self.public: str | None = None
        """Of the key that signs now, once anybody needed it."""

    async def sign(self, log: str, checkpoint: AuditCheckpoint) -> AuditCheckpoint:
        """Raises `Elsewhere`, OSError."""
        async with self._turn:
            key = await self._current(log)
            from infra.audit.signing import sign

            named = replace(checkpoint, key=self.public or "")
            return replace(named, signature=sign(key, chain.statement(named)))

    def forget(self) -> None:
        """Somebody else may have replaced it: look again."""
        self._key = None

    async def show(self, log: str) -> str:
        """The public key. Raises `Elsewhere`, OSError."""
        async with self._turn:
            await self._current(log)
            return self.public or ""

    async def rotate(self, log: str, *, command: str, reason: str) -> None:
        """A new key from here on. The same command again changes nothing.

        Raises `Elsewhere`, `Conflict` when somebody else has just done it, OSError.
        """
        async with self._turn:
            # A key that was replaced elsewhere since must not name its successor.
            self.forget()
            key = await self._current(log)
            from infra.audit.signing import public_of, sign

            if await publisher.find(self._bus, ROTATIONS, self._journal_id(command)) is not None:
                return
            following = await in_thread((await self._keys()).prepare)
            fact = AuditRotated(
                log=log, key=public_of(key), next=public_of(following), signature="", proof="", reason=reason
            )
            said = chain.rotation_statement(fact)
            signed = replace(fact, signature=sign(key, said), proof=sign(following, said))
            await self._publish(signed, id_=command, command=command)
            await self._promote(following)

    def _journal_id(self, id_: str) -> str:
        return f"{self._journal.service}.rotated.{id_}"

    async def _publish(self, fact: AuditRotated, *, id_: str, command: str | None = None) -> None:
        """Whoever else replaces the key at the same time: one of us is refused."""
        newest = await patiently(self._bus, lambda bus: reader.last(bus, ROTATIONS))
        guard = Expect(ROTATIONS, 0 if newest is None else newest.seq)
        written: Written = self._journal.write(subjects.NO_SANDBOX, fact, id=f"rotated.{id_}", command=command)
        await append(self._bus, written.subject, written.payload, written.id, expect=guard)

    async def _promote(self, key: "Ed25519PrivateKey") -> None:
        await in_thread((await self._keys()).promote)
        self._hold(key)

    def _hold(self, key: "Ed25519PrivateKey") -> "Ed25519PrivateKey":
        from infra.audit.signing import public_of

        self._key, self.public = key, public_of(key)
        return key

    async def _keys(self) -> "Keys":
        if self._loaded is None:
            # The library takes long to import: by a thread, and before anything else here imports it.
            self._loaded = await in_thread(_load, self._directory)
        return self._loaded

    async def _current(self, log: str) -> "Ed25519PrivateKey":
        if self._key is not None:
            return self._key
        keys = await self._keys()
        from infra.audit.signing import public_of

        named = await patiently(self._bus, past_checkpoints.newest_key)
        waiting = await in_thread(_readable, keys.waiting)
        if waiting is not None and named is not None and public_of(waiting) == named.key:
            # A rotation that was told, and then interrupted.
            await self._promote(waiting)
            return waiting
        key = await in_thread(_current_or_aside, keys)
        if named is None:
            return self._hold(key if key is not None else await in_thread(keys.make))
        if key is not None and public_of(key) == named.key:
            return self._hold(key)
        return await self._replace_lost(log, named, keys)

    async def _replace_lost(self, log: str, named: KeyNamed, keys: "Keys") -> "Ed25519PrivateKey":
        from infra.audit.signing import public_of, sign

        if named.node not in (None, self._journal.node):
            raise Elsewhere(f"node {named.node} signs this log: its audit directory has the key")
        following = await in_thread(keys.prepare)
        fact = AuditRotated(log=log, key=named.key, next=public_of(following), signature="", proof="", reason=LOST)
        proven = replace(fact, proof=sign(following, chain.rotation_statement(fact)))
        await self._publish(proven, id_=public_of(following)[:32])
        await self._promote(following)
        logger.error("the key %s that signed the log is lost: from now on it is %s", named.key, self.public)
        return following


def _load(directory: Path) -> "Keys":
    from infra.audit.keys import Keys

    return Keys(directory)


def _readable(read: "Callable[[], Ed25519PrivateKey | None]") -> "Ed25519PrivateKey | None":
    try:
        return read()
    except Invalid:
        return None


def _current_or_aside(keys: "Keys") -> "Ed25519PrivateKey | None":
    try:
        return keys.current()
    except Invalid as error:
        logger.error("%s: kept as %s", error.message, keys.set_aside())  # noqa: TRY400
        return None
