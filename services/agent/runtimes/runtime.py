"""What every runtime of agents is: a small adapter between a run and the program that thinks.

A runtime holds nothing. `drive` is called anew after every crash of this service, from the beginning of the same run,
and everything that it asks of its stage under a key is done once: what is on record under that key is not done again,
and has the answer that it had then. So a runtime is written as if nothing ever crashed, as long as the same record
leads it to the same keys.
"""

from typing import TYPE_CHECKING, NamedTuple, Protocol

from contracts.commands.agent import StartAgent

if TYPE_CHECKING:
    from services.agent.stage import Stage


class Ending(NamedTuple):
    """How a run came to its end by itself."""

    result: str = ""
    reason: str = "done"


class Runtime(Protocol):
    name: str

    def check(self, order: StartAgent) -> None:
        """Before anything is begun. Raises `RuntimeMissing` where what it needs is not installed on the node (with the
        words that mend it), `Invalid` for options that cannot be right."""
        ...

    async def drive(self, stage: "Stage") -> Ending:
        """One run, from its prompt to its end.

        Raises `ProcessLost` (from `Process`) where the sandbox or the keeper is at fault: it is called again once there
        is a sandbox, as the next attempt. Raises `AgentFailed` where the agent is at fault; the run ends with it. It is
        cancelled when the run is stopped, or has spent its budget, or this service ends.
        """
        ...
