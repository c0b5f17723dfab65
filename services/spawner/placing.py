"""Whether this node takes a sandbox that was offered to any node."""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager

from contracts.errors import ClocheError
from contracts.nodes import Placing, drained_order, place, want_of, why_not_here
from contracts.spec import SandboxSpec
from infra.bus.settle import GivenBack
from services.spawner.company import Company
from services.spawner.room import Room

logger = logging.getLogger(__name__)

FIRST_DELAY_S = 0.1
LONGEST_DELAY_S = 2.0
DOUBLINGS = 10
HELD_BACK_S = 0.5
REMEMBERED = 10_000


class Places:
    def __init__(self, company: Company, room: Room, *, patience_s: float) -> None:
        self._company = company
        self._room = room
        self._patience_s = patience_s
        self._offers: dict[str, tuple[float, int]] = {}

    def hold_back_s(self) -> float:
        """While others have room and this node has none, they are given time to take what is offered."""
        here = self._company.here().vitals
        is_full = here.draining or here.sandboxes >= here.max_sandboxes
        return HELD_BACK_S if is_full and self._company.others() else 0.0

    async def admit(self, command: str, sandbox: str, spec: SandboxSpec) -> None:
        """Returns where it is this node's to take.

        Raises `GivenBack` where another may, `Invalid` where no node ever can, `SandboxResourceLimitExceeded` where
        none has had room for long enough.
        """
        here = self._company.here(but=sandbox)
        begun, times = self._offers.get(command, (asyncio.get_running_loop().time(), 0))
        waited_s = asyncio.get_running_loop().time() - begun
        want = want_of(spec)
        decided = place(want, here, self._company.others(), waited_s=waited_s, patience_s=self._patience_s)
        if decided.step is not Placing.TAKE:
            # What is known of the others may be some seconds old, and this is an answer for good.
            await self._look_again()
            decided = place(want, here, self._company.others(), waited_s=waited_s, patience_s=self._patience_s)
        if decided.step is Placing.GIVE_BACK:
            self._offers[command] = (begun, times + 1)
            self._offers = dict(list(self._offers.items())[-REMEMBERED:])
            raise GivenBack(min(FIRST_DELAY_S * 2 ** min(times, DOUBLINGS), LONGEST_DELAY_S))
        self._offers.pop(command, None)
        if decided.refusal is not None:
            raise decided.refusal

    def admit_here(self, sandbox: str, spec: SandboxSpec, *, exists: bool, has_it: bool) -> None:
        """For one that names this node. Raises `NodeIsDrained`, `Invalid` for what this node can never have,
        `SandboxResourceLimitExceeded` for what it has no room for. `exists`, `has_it`: anywhere, and here.
        """
        if self._company.own.standing.gives_away:
            raise drained_order(self._company.own.node, sandbox, exists=exists)
        refusal = why_not_here(want_of(spec), self._company.here(but=sandbox), has_it=has_it)
        if refusal is not None:
            raise refusal

    @contextmanager
    def kept(self, sandbox: str, spec: SandboxSpec) -> Iterator[None]:
        with self._room.keep_for(sandbox, spec.resources):
            yield

    async def _look_again(self) -> None:
        try:
            await self._company.look()
        except ClocheError as error:
            logger.info("the other nodes are not known: %s", error.message)
