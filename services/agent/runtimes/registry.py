"""The runtimes that there are, by name. Found by entry point, so a third party can add one."""

import logging
from importlib.metadata import entry_points

from contracts.commands.agent import StartAgent
from contracts.errors import RuntimeMissing
from services.agent.runtimes.runtime import Ending, Runtime
from services.agent.stage import Stage

logger = logging.getLogger(__name__)

GROUP = "cloche.agent"


class Unloadable:
    """Stands for a runtime whose code cannot be imported: the others work all the same."""

    def __init__(self, name: str, why: str) -> None:
        self.name = name
        self._error = RuntimeMissing(f"the runtime {name!r} cannot be loaded on this node: {why}")

    def check(self, order: StartAgent) -> None:  # noqa: ARG002
        raise self._error

    async def drive(self, stage: Stage) -> Ending:  # noqa: ARG002
        raise self._error


def load_runtimes() -> dict[str, Runtime]:
    """Each is loaded without the packages that it needs: `check` says whether they are installed."""
    found: dict[str, Runtime] = {}
    for point in entry_points(group=GROUP):
        try:
            found[point.name] = point.load()()
        except Exception as error:  # noqa: BLE001  somebody else's code
            logger.error("the runtime %r cannot be loaded: %r", point.name, error)  # noqa: TRY400
            found[point.name] = Unloadable(point.name, repr(error))
    return found
