"""Has egress listen in a sandbox before anything else runs there."""

import logging

from contracts import subjects
from contracts.egress import Attach, Attached
from contracts.errors import ClocheError
from contracts.spec import NetworkMode
from contracts.state import SandboxState
from infra.bus.connection import Bus
from infra.bus.errors import NobodyAnswers
from infra.client.asking import ask

logger = logging.getLogger(__name__)

PATIENCE_S = 5.0
"""A sandbox waits no longer for its way out: it begins sealed, and egress attaches it when it can."""


class Attaching:
    def __init__(self, bus: Bus, node: str, *, patience_s: float = PATIENCE_S) -> None:
        self._bus = bus
        self._node = node
        self._patience_s = patience_s
        self._was_missed = False
        """A node without egress is waited for only once."""

    async def before_commands(self, state: SandboxState, instance: str) -> str | None:
        """By which way it goes out, in words; None where it does not, or not yet. Never fails."""
        if state.spec.network.mode is not NetworkMode.RESTRICTED:
            return None
        try:
            request = Attach(instance=instance, sequence=state.lifecycle_sequence)
            return (await self._ask(state.sandbox, request)).way
        except ClocheError as error:
            logger.warning("%s begins without a way out: %s", state.sandbox, error.message)
            return None

    async def _ask(self, sandbox: str, request: Attach) -> Attached:
        subject = subjects.rpc("egress", self._node, sandbox, "attach")
        patience = 0.0 if self._was_missed else self._patience_s
        try:
            attached: Attached = await ask(
                self._bus, subject, request, Attached, timeout=self._patience_s, patience=patience
            )
        except NobodyAnswers:
            self._was_missed = True
            raise
        self._was_missed = False
        return attached
