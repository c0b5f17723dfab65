"""The agent's own session, remembered from one of its processes to the next: its name, and what it has cost."""

import msgspec
from msgspec import Struct

from services.agent.stage import Stage

RUNTIME = "acp"
FOLDER = "session/"


class Session(Struct, frozen=True, kw_only=True):
    name: str
    cost_usd: float = 0.0
    """From its very beginning, as the agent counts, as far as it is on record."""


def goes_on(stage: Stage) -> bool:
    """Whether there is something to go on from: an earlier attempt, or an earlier run."""
    return stage.attempt > 1 or stage.order.resumed is not None


async def keep(stage: Stage, key: str, process: str, session: Session) -> None:
    await stage.transcripts.keep(key, RUNTIME, FOLDER + process, msgspec.json.encode(session), replaces=True)


async def earlier(stage: Stage, process: str) -> Session | None:
    """The newest one of another process than this: the same for every life of this service."""
    if not goes_on(stage):
        return None
    documents = await stage.transcripts.documents()
    kept = [each.data for each in documents if each.session == RUNTIME and _is_of_another(each.path, process)]
    return _read(kept[-1]) if kept else None


def _is_of_another(path: str, process: str) -> bool:
    return path.startswith(FOLDER) and path != FOLDER + process


def _read(data: bytes) -> Session | None:
    try:
        return msgspec.json.decode(data, type=Session)
    except msgspec.DecodeError:
        # What is masked as a secret may be no number any more.
        return None
