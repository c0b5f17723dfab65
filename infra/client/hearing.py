"""What is being done about a sandbox while somebody waits for it."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from contracts import codec, subjects
from contracts.errors import Invalid
from contracts.vitals import PROGRESS, Progress
from infra.bus.connection import Bus


@asynccontextmanager
async def hearing(bus: Bus, sandbox: str, call: Callable[[str], None] | None) -> AsyncIterator[None]:
    """`call` with each line that is told within; lines may be lost."""
    if call is None:
        yield
        return

    def heard(_subject: bytes, _reply: bytes, data: bytes, _headers: bytes | None) -> None:
        with suppress(Invalid):
            call(codec.decode(data, Progress).line)

    tap = await bus.tap(subjects.vitals(sandbox, PROGRESS), heard)
    try:
        yield
    finally:
        await bus.client.untap(tap)
