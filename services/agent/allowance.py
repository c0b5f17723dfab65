"""What the quotas of a sandbox's project and of its owner leave for agents to spend."""

import asyncio

from contracts.errors import QuotaExceeded
from infra import clock
from infra.usage import Usage
from services.agent.budget import BudgetSpent


class Allowance:
    """`usage` is None where nobody's spending has a limit: then nothing is counted."""

    def __init__(self, usage: Usage | None) -> None:
        self._usage = usage

    async def check(self, sandbox: str) -> None:
        """Before a run is begun. Raises `QuotaExceeded`."""
        if self._usage is not None:
            refusal = (await self._usage.newest()).spent_out(sandbox, clock.now())
            if refusal is not None:
                raise refusal

    async def after_spending(self, sandbox: str) -> None:
        """Once all that is on record is counted. Raises `BudgetSpent`."""
        if self._usage is not None:
            await self._usage.newest()
            self._check_left(self._usage, sandbox)

    async def lasts(self, sandbox: str) -> None:
        """For as long as there is something left: others spend it too. Raises `BudgetSpent`, and never returns."""
        if self._usage is None:
            await asyncio.Event().wait()
        while self._usage is not None:
            self._check_left(self._usage, sandbox)
            await self._usage.changed()

    def _check_left(self, usage: Usage, sandbox: str) -> None:
        refusal: QuotaExceeded | None = usage.ledger.spent_out(sandbox, clock.now())
        if refusal is not None:
            raise BudgetSpent(refusal.message)
