"""The audit as a part of the service: what runs, what it answers, and what it obeys."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from contracts import codec, subjects
from contracts.audits import AuditKey, AuditState, Checking, GetAudit, HeirKey
from contracts.commands.audit import RotateAuditKey
from contracts.errors import ClocheError, Conflict, Invalid, Unavailable
from infra.audit import place
from infra.audit.anchoring import Anchoring
from infra.audit.targets import target_of
from infra.bus.connection import Bus
from infra.exclusive import exclusive
from infra.journal import Journal
from infra.observing import catalogue
from infra.observing.lag import watch_lag
from infra.settings import Settings
from infra.watching.threads import in_thread
from services.replay.audit import damages, past_checkpoints, past_keys
from services.replay.audit.auditor import Auditor
from services.replay.audit.beginning import Files
from services.replay.audit.checking import AFTER_S, Checker
from services.replay.audit.damages import Damages
from services.replay.audit.heirs import Heirs
from services.replay.audit.signer import Signer
from services.replay.handlers import Answers

logger = logging.getLogger(__name__)

LOCK = "audit"
LOCK_S = 1.0
MOST_KEYS = 1000
"""Of an answer."""


class AuditPart:
    def __init__(self, bus: Bus, settings: Settings, journal: Journal) -> None:
        """Raises `Invalid` for an anchor that is none."""
        self._bus = bus
        self._settings = settings
        files = Files(place.directory(settings.data))
        turn = asyncio.Lock()
        self._signer = Signer(bus, journal, files.directory, turn)
        self._heirs = Heirs(bus, journal, files.directory, settings.audit, turn)
        told = Damages(bus, journal)
        self._auditor = Auditor(bus, journal, settings.audit, files, self._signer, told)
        self._checker = Checker(bus, files.record, self._auditor, self._signer, told)
        targets = [target_of(name) for name in settings.audit.anchors]
        self._anchoring = Anchoring(files.directory, files.record, targets)
        self._auditor.on_checkpoint = self._anchoring.told

    def answers(self) -> Answers:
        return {"audit": self.state}

    async def run(self, *, check_after_s: float = AFTER_S) -> None:
        """For ever, until cancelled."""
        await self._alone(lambda: self._run(check_after_s), "the log is not being proven")

    async def stand_by(self) -> None:
        """While another node proves the log: a key is kept ready. For ever, until cancelled."""
        await self._alone(self._heirs.run, "no key is ready for signing the log")

    async def _alone(self, work: Callable[[], Awaitable[None]], otherwise: str) -> None:
        if not self._settings.audit.enabled:
            return
        complained = False
        while True:
            try:
                await in_thread(place.prepare, self._settings.data)
                with exclusive(self._settings.data, LOCK, "one chain has one author"):
                    await work()
            except (Unavailable, OSError) as error:
                if not complained:
                    logger.warning("%s, later again: %s", otherwise, error)
                complained = True
                await asyncio.sleep(LOCK_S)

    async def _run(self, check_after_s: float) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._auditor.run())
            tasks.create_task(self._anchoring.run())
            tasks.create_task(catalogue.checkpoint_age.show(self._auditor.waits_s))
            tasks.create_task(catalogue.unproven.show(lambda: self._auditor.unproven))
            tasks.create_task(catalogue.audit_trouble.show(lambda: self._auditor.is_in_trouble))
            tasks.create_task(watch_lag("audit", self._bus, [subjects.LOG], lambda: self._auditor.next - 1))
            if self._settings.url is not None:
                # There may be other nodes.
                tasks.create_task(self._heirs.run())
            if self._settings.audit.check is Checking.ALL:
                tasks.create_task(self._checker.run(after_s=check_after_s))

    async def handle(self, subject: str, raw: bytes) -> None:
        """An order about the log itself. Raises `Invalid`; `Unavailable`, when it is to come again."""
        head, order = codec.decode_command(subject, raw)
        if not isinstance(order, RotateAuditKey):
            raise Invalid(f"{head.type} is no order for the audit")
        if not self._settings.audit.enabled:
            raise Invalid("this log is not signed: audit.enabled is false in the settings")
        if not self._auditor.log:
            raise Unavailable("the audit has not begun yet")
        try:
            await self._signer.rotate(self._auditor.log, command=head.id, reason=order.reason)
        except (Conflict, OSError) as error:
            self._signer.forget()
            raise Unavailable(f"the key is not replaced yet: {error}") from error

    async def state(self, _query: GetAudit) -> AuditState:
        """Raises `Unavailable`."""
        auditor = self._auditor
        newest = (await past_checkpoints.newest(self._bus)).kept
        log = auditor.log or ("" if newest is None else newest.checkpoint.log)
        return AuditState(
            log=log,
            enabled=self._settings.audit.enabled,
            keys=await self._keys(log),
            checkpoint=0 if newest is None else newest.checkpoint.last_sequence,
            checkpoint_at=None if newest is None else newest.time,
            checked=self._checker.checked,
            damages=damages.readable(await damages.told(self._bus)),
            seen=auditor.next - 1,
            troubles=self._troubles(),
        )

    async def _keys(self, log: str) -> tuple[AuditKey, ...]:
        named = (await past_keys.all_keys(self._bus, log))[-MOST_KEYS:]
        if not named and self._auditor.log:
            try:
                return (AuditKey(key=await self._signer.show(self._auditor.log), since_sequence=0, current=True),)
            except (ClocheError, OSError):
                return ()
        heirs = await self._heirs_of(log, named[-1].key) if named else ()
        keys = [AuditKey(key=each.key, since_sequence=each.sequence, current=False) for each in named]
        return (*keys[:-1], *(replace(each, current=True, heirs=heirs) for each in keys[-1:]))

    async def _heirs_of(self, log: str, key: str) -> tuple[HeirKey, ...]:
        standing = await past_keys.standing(self._bus, log)
        found = (each for each in standing.values() if each.is_heir_of(key))
        return tuple(HeirKey(node=each.node, key=each.key) for each in sorted(found))

    def _troubles(self) -> tuple[str, ...]:
        anchors = (f"not anchored at {name}: {why}" for name, why in self._anchoring.troubles.items())
        own = (f"the log is not being proven: {self._auditor.trouble}",) if self._auditor.trouble else ()
        return (*own, *anchors)
