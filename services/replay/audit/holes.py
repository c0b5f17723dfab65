"""What the store itself says that it has not got: asked once, when the service starts."""

from pathlib import Path

from contracts.chain import Fault
from contracts.findings import Finding
from contracts.streams import LOG_STREAM
from infra.audit import place
from infra.bus.connection import Bus
from infra.bus.gaps import Gaps
from infra.watching.threads import in_thread
from services.replay.audit.memory import GONE

BEGINNING = "the log has no limits, and has lost its beginning"


async def holes(bus: Bus, directory: Path, up_to: int) -> list[Finding]:
    """Within what was proven before. What came later is met by reading it. Raises `Unavailable`, OSError."""
    info = await bus.api(f"STREAM.INFO.{LOG_STREAM}")
    state, config = info["state"], info["config"]
    first = max(int(state["first_seq"]), 1)
    found = [Finding(gap.first, gap.last, Fault.MISSING, GONE) for gap in await Gaps.of(bus).known(state, 1, up_to)]
    before = await in_thread(place.oldest, directory)
    if before is not None and before < first and not _is_limited(config):
        found.insert(0, Finding(before, first - 1, Fault.MISSING, BEGINNING))
    return found


async def keep_oldest(directory: Path, first: int) -> None:
    """What came before is told, or was dropped by the log's limits. Raises OSError."""
    first = max(first, 1)
    if await in_thread(place.oldest, directory) != first:
        await in_thread(place.keep_oldest, directory, first)


def _is_limited(config: dict[str, object]) -> bool:
    return bool(config.get("max_age")) or any(config.get(name, -1) != -1 for name in ("max_bytes", "max_msgs"))
