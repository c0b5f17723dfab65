"""What people and the guardian say to a run, and when the runtime gets to hear it."""

import asyncio

from contracts.events import agent as facts
from services.agent.budget import BudgetSpent
from services.agent.digest import digest
from services.agent.pen import Pen
from services.agent.record import PROMPT, Interrupt, Record, Steer

LONGEST_KEY = 100


class Steering:
    def __init__(self, pen: Pen, record: Record) -> None:
        self._pen = pen
        self._record = record
        self._handed: set[str] = set()
        self._taking = asyncio.Lock()

    def waiting(self) -> tuple[Steer, ...]:
        """Said and not delivered, in the order in which it was said."""
        return tuple(self._record.queued.values())

    async def steered(self) -> None:
        """Returns as soon as something waits."""
        while not self._record.queued:
            await self._record.changed()

    async def take(self, key: str, where: str, call: str | None = None) -> tuple[Steer, ...]:
        """All that waits, told as delivered: at once after this it has to go to the agent.

        The same again for the same key, also after a crash. So ask only for what is not done yet, and see to it that
        giving it twice is giving it once.
        """
        key = _short(key)
        async with self._taking:
            known = self._record.delivered.get(key)
            return tuple(await self._deliver(key, where, call) if known is None else known)

    async def _deliver(self, key: str, where: str, call: str | None) -> list[Steer]:
        for steer in self.waiting():
            told = facts.AgentDelivered(
                run=self._record.run,
                order=steer.order,
                kind=steer.kind,
                sequence=steer.sequence,
                where=where,
                call=call,
                key=key,
                process=self._record.process,
            )
            await self._pen.write(f"delivered/{key}/{steer.order}", told)
        return self._record.delivered.get(key, [])

    async def next_turn(self, key: str) -> tuple[Steer, ...]:
        """A turn is over: what the next begins with; empty where the run is to end now.

        Waits where there is more to come: in a run that is kept open, or was interrupted. Raises `BudgetSpent`.
        """
        key = _short(key)
        while True:
            known = self._record.delivered.get(key)
            if known is not None:
                return tuple(known)
            most = self._record.started.max_turns
            async with self._record.intake:
                if most is not None and self._record.spent.turns >= most and self._wants_more():
                    raise BudgetSpent(f"{self._record.spent.turns} of {most} turns")
                if self._record.closed:
                    return ()
                if not self._wants_more():
                    await self._pen.write(f"closing/{key}", facts.AgentClosing(run=self._record.run))
                    self._record.closed = True
                    return ()
                if self._record.queued:
                    return await self.take(key, PROMPT)
            await self._pen.write(f"waiting/{key}", facts.AgentWaiting(run=self._record.run, reason=self._why()))
            await self.steered()

    def _wants_more(self) -> bool:
        record = self._record
        return bool(record.queued or record.started.keep_open or record.interrupted or record.interrupts)

    def _why(self) -> str:
        return "interrupted" if self._record.interrupted else "turn over"

    async def next_interrupt(self) -> Interrupt:
        """The next that is to be obeyed, each once; see `acknowledge`."""
        while True:
            for order, interrupt in self._record.interrupts.items():
                if order not in self._handed:
                    self._handed.add(order)
                    return interrupt
            await self._record.changed()

    async def acknowledge(self, interrupt: Interrupt) -> None:
        """The operation has stopped, and its processes with it."""
        told = facts.AgentInterrupted(run=self._record.run, reason=interrupt.reason, order=interrupt.order)
        await self._pen.write(f"interrupted/{interrupt.order}", told)

    async def gate(self) -> None:
        """Returns while the run is not paused."""
        while self._record.paused or self._record.pause_wanted:
            await self._record.changed()


def _short(key: str) -> str:
    """Keys are made of what programs call their calls, and go into events."""
    return key if len(key) <= LONGEST_KEY and key.isascii() else digest(key)
