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
from contracts.nodes import Standing
from infra.bus import publisher
from infra.bus.connection import Bus
from infra.bus.publisher import Expect, append
from infra.bus.reader import patiently
from infra.journal import Journal, Written
from infra.nodes import NodeLog
from infra.watching.threads import in_thread
from services.replay.audit import past_keys
from services.replay.audit.past_keys import ROTATIONS, KeyNamed

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from infra.audit.keys import Keys

logger = logging.getLogger(__name__)

LOST = "the file with the key is lost"
TAKEN_OVER = "node {} took over"
ELSEWHERE = (
    "node {0} signs this log and has not named this node as its heir. Bring it back, and it does; or copy its audit "
    "directory to this node; or say that it is gone: `cloche nodes lost {0}`"
)


class Elsewhere(Unavailable):
    """Another node signs this log."""


class Signer:
    """One thing at a time: nothing is signed by a key while it is being replaced."""

    def __init__(self, bus: Bus, journal: Journal, directory: Path, turn: asyncio.Lock) -> None:
        """`turn`: for all who use the files with keys."""
        self._bus = bus
        self._journal = journal
        self._directory = directory
        self._turn = turn
        self._loaded: Keys | None = None
        self._key: Ed25519PrivateKey | None = None
        self._guard = 0
        """The sequence of the last change of keys when the log was asked which one signs."""
        self._met = 0
        """The sequence of the last one in what is to be signed."""
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

    def begin(self) -> None:
        """Nothing is to be signed yet."""
        self._met = 0
        self.forget()

    def met(self, sequence: int) -> None:
        """The log has a change of keys there. Nothing that includes one which we know nothing of is signed by habit."""
        self._met = max(self._met, sequence)
        if sequence > self._guard:
            self.forget()

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
            if await publisher.find(self._bus, ROTATIONS, self._journal_id(command)) is not None:
                return
            # A key that was replaced elsewhere since must not name its successor.
            self.forget()
            key = await self._current(log)
            following = await self._prepare(log)
            from infra.audit.signing import public_of, sign

            fact = AuditRotated(
                log=log, key=public_of(key), next=public_of(following), signature="", proof="", reason=reason
            )
            signed = replace(fact, signature=sign(key, chain.rotation_statement(fact)))
            await self._change(signed, following, id_=command, command=command)

    def _journal_id(self, id_: str) -> str:
        return f"{self._journal.service}.rotated.{id_}"

    async def _prepare(self, log: str) -> "Ed25519PrivateKey":
        used = await patiently(self._bus, lambda bus: past_keys.used(bus, log))
        return await in_thread((await self._keys()).prepare, used)

    async def _change(
        self, fact: AuditRotated, following: "Ed25519PrivateKey", *, id_: str, command: str | None = None
    ) -> None:
        """Told first: whatever interrupts us then, the log names the waiting key, and nobody uses the one before it."""
        from infra.audit.signing import sign

        self.forget()
        proven = replace(fact, proof=sign(following, chain.rotation_statement(fact)))
        await self._publish(proven, id_=id_, command=command)
        await self._promote(following)

    async def _publish(self, fact: AuditRotated, *, id_: str, command: str | None = None) -> None:
        """Whoever else has replaced the key since we asked for it: one of us is refused. Raises `Conflict`."""
        guard = Expect(ROTATIONS, self._guard)
        written: Written = self._journal.write(subjects.NO_SANDBOX, fact, id=f"rotated.{id_}", command=command)
        self._guard = (await append(self._bus, written.subject, written.payload, written.id, expect=guard)).seq

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

        named, self._guard = await patiently(self._bus, lambda bus: past_keys.signs_now(bus, log))
        if self._guard < self._met:
            raise Unavailable(f"keys were changed at sequence {self._met}, and the server that answers lags behind")
        waiting = await in_thread(_readable, keys.waiting)
        if waiting is not None and named is not None and public_of(waiting) == named.key:
            # A change that was told, and then interrupted.
            await self._promote(waiting)
            return waiting
        key = await in_thread(_current_or_aside, keys)
        if named is None:
            return self._hold(key if key is not None else await in_thread(keys.make))
        if key is not None and public_of(key) == named.key:
            return self._hold(key)
        return await self._inherit(log, named, waiting) or await self._replace_lost(log, named)

    async def _inherit(
        self, log: str, named: KeyNamed, waiting: "Ed25519PrivateKey | None"
    ) -> "Ed25519PrivateKey | None":
        """Where the key that signs has named ours, its word is given: a change of keys like any other."""
        if waiting is None:
            return None
        from infra.audit.signing import public_of

        node, following = self._journal.node, public_of(waiting)
        heir = await patiently(
            self._bus, lambda bus: past_keys.heir(bus, log, node, key=named.key, following=following)
        )
        if heir is None:
            return None
        fact = AuditRotated(
            log=log, key=named.key, next=following, signature=heir.signature, proof="", reason=TAKEN_OVER.format(node)
        )
        await self._change(fact, waiting, id_=following[:32])
        logger.warning("this node signs the log from now on, after node %s, by %s", named.node, following)
        return waiting

    async def _replace_lost(self, log: str, named: KeyNamed) -> "Ed25519PrivateKey":
        from infra.audit.signing import public_of

        if named.node not in (None, self._journal.node) and not await self._is_lost(named.node):
            raise Elsewhere(ELSEWHERE.format(named.node))
        following = await self._prepare(log)
        fact = AuditRotated(log=log, key=named.key, next=public_of(following), signature="", proof="", reason=LOST)
        await self._change(fact, following, id_=public_of(following)[:32])
        logger.error("the key %s that signed the log is lost: from now on it is %s", named.key, self.public)
        return following

    async def _is_lost(self, node: str) -> bool:
        known = await patiently(self._bus, lambda bus: NodeLog(bus).read())
        return node in known and known[node].standing is Standing.LOST


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
