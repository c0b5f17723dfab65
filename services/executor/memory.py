"""Was a command killed because its sandbox ran out of memory?"""

import logging
from collections.abc import Mapping

from contracts.errors import ClocheError
from contracts.spec import Isolation
from contracts.state import SandboxState
from infra.lifecycles import Lifecycles
from infra.sandbox.base import Provider

logger = logging.getLogger(__name__)

REMEMBERED = 1000


class Memory:
    """The kernel counts its kills per sandbox: one more than last time, and a command that was killed, go together."""

    def __init__(self, lifecycles: Lifecycles, providers: Mapping[Isolation, Provider]) -> None:
        self._lifecycles = lifecycles
        self._providers = providers
        self._seen: dict[str, int] = {}

    async def remember(self, state: SandboxState) -> None:
        """To be called before the first command of a sandbox's life: earlier kills are nobody's of today."""
        if state.instance is not None and state.instance not in self._seen:
            self._seen[state.instance] = await self._count(state)
            self._seen = dict(list(self._seen.items())[-REMEMBERED:])

    async def ran_out(self, sandbox: str) -> bool:
        """Since it was last asked. False where nobody counts."""
        state = self._lifecycles.get(sandbox)
        if state is None or state.instance is None:
            return False
        count = await self._count(state)
        more = count > self._seen.get(state.instance, count)
        self._seen[state.instance] = count
        return more

    async def _count(self, state: SandboxState) -> int:
        provider = self._providers.get(state.isolation)
        if provider is None:
            return self._seen.get(state.instance or "", 0)
        try:
            return await provider.oom_kills(state.sandbox) or 0
        except (ClocheError, OSError) as error:
            logger.info("%s: %s", state.sandbox, error)
            return self._seen.get(state.instance or "", 0)
