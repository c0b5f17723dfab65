"""Keys that follow the one that signs: announced by who has one ready, named in advance by who has the one that signs.

Every replay does this, on duty or not. What is to be done is read from the log each time, so it does not matter what
was interrupted: a node that nobody has named yet, or only a key that is replaced by now, is named by the one of now.
"""

import asyncio
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from contracts import chain, nodes, subjects
from contracts.audits import Audit
from contracts.errors import ClocheError
from contracts.events.audit import AuditHeir, AuditStandby
from contracts.succession import Standing
from infra.bus.connection import Bus
from infra.journal import Journal
from infra.nodes import NodeLog
from infra.watching.threads import in_thread
from services.replay.audit import past_checkpoints, past_keys

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from infra.audit.keys import Keys

logger = logging.getLogger(__name__)

LOOK_S = 5.0


class Heirs:
    def __init__(self, bus: Bus, journal: Journal, directory: Path, settings: Audit, turn: asyncio.Lock) -> None:
        """`turn`: for all who use the files with keys."""
        self._bus = bus
        self._journal = journal
        self._directory = directory
        self._settings = settings
        self._turn = turn

    async def run(self) -> None:
        """For ever, until cancelled."""
        trouble = ""
        while True:
            try:
                await self.look()
            except (ClocheError, OSError) as error:
                if str(error) != trouble:
                    logger.warning("who signs the log next is not settled, later again: %s", error)
                trouble = str(error)
            await asyncio.sleep(LOOK_S)

    async def look(self) -> None:
        """Once. Raises `Unavailable`, OSError."""
        newest = (await past_checkpoints.newest(self._bus)).kept
        if newest is None:
            return
        async with self._turn:
            await self._settle(newest.checkpoint.log)

    async def _settle(self, log: str) -> None:
        signs = (await past_keys.signs_now(self._bus, log)).named
        if signs is None:
            return
        keys, standing = await in_thread(_load, self._directory), await past_keys.standing(self._bus, log)
        key, own = await in_thread(keys.holding, signs.key), standing.get(self._journal.node)
        if key is not None:
            for each in await self._worthy(log, [each for each in standing.values() if each.waits_for(signs.key)]):
                fact = AuditHeir(log=log, key=signs.key, node=each.node, next=each.key, signature="")
                await self._name(key, fact, each)
        elif not await in_thread(_is_settled, keys, own, signs.key):
            await self._announce(log, keys, own)

    async def _announce(self, log: str, keys: "Keys", told: Standing | None) -> None:
        key = await in_thread(keys.prepare, await past_keys.used(self._bus, log))
        from infra.audit.signing import public_of, sign

        node, public = self._journal.node, public_of(key)
        if told is not None and told.key == public:
            return
        fact = AuditStandby(log=log, node=node, key=public, proof="")
        fact = replace(fact, proof=sign(key, chain.standby_statement(fact)))
        written = self._journal.write(subjects.NO_SANDBOX, fact, id=f"standby.{public[:32]}", scope=node)
        await self._journal.append(written)

    async def _worthy(self, log: str, waiting: list[Standing]) -> list[Standing]:
        """Of other nodes that may, and are not lost, with keys that never signed."""
        others = [each for each in waiting if each.node != self._journal.node and self._settings.may_inherit(each.node)]
        if not others:
            return []
        used, known = await past_keys.used(self._bus, log), NodeLog(self._bus)
        await known.read()
        return [
            each for each in others if each.key not in used and known.get(each.node).standing is not nodes.Standing.LOST
        ]

    async def _name(self, key: "Ed25519PrivateKey", fact: AuditHeir, standing: Standing) -> None:
        from infra.audit.signing import sign

        signed = replace(fact, signature=sign(key, chain.rotation_statement(fact)))
        id_ = f"heir.{fact.key[:32]}.{fact.next[:32]}.{standing.since}"
        await self._journal.append(self._journal.write(subjects.NO_SANDBOX, signed, id=id_, scope=fact.node))
        logger.info("node %s is an heir of the key that signs the log, by %s", fact.node, fact.next)


def _is_settled(keys: "Keys", own: Standing | None, key: str) -> bool:
    """Most of the time: nothing more has to be read then."""
    return own is not None and not own.waits_for(key) and keys.holding(own.key) is not None


def _load(directory: Path) -> "Keys":
    from infra.audit.keys import Keys

    return Keys(directory)
