"""What the log says a sandbox died of."""

from contracts.events.health import HealthDied
from infra.journal import Journal


async def last_cause(journal: Journal, sandbox: str) -> dict[str, str]:
    """For the details of a failure; empty where no death is on record. Raises `Unavailable`."""
    died = await journal.last(sandbox, "health.died")
    return {"cause": died.cause, "died": died.detail} if isinstance(died, HealthDied) else {}
