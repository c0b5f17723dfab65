"""OpenHands: its SDK in the sandbox's own image, told and steered by lines of JSON."""

from contracts.commands.agent import StartAgent
from services.agent.runtimes.openhands import options
from services.agent.runtimes.openhands.conversation import Conversation
from services.agent.runtimes.openhands.memory import Memory
from services.agent.runtimes.openhands.program import command
from services.agent.runtimes.runtime import Ending
from services.agent.stage import Stage


class OpenHandsRuntime:
    """The node needs nothing for it; the image Python 3.12 or newer with `openhands-sdk` and `openhands-tools`."""

    name = "openhands"

    def check(self, order: StartAgent) -> None:
        options.check(order)

    async def drive(self, stage: Stage) -> Ending:
        chosen = options.read(stage.order.options)
        memory = await Memory.of(stage)
        async with stage.process(command(chosen.python), cwd=stage.workspace) as process:
            return await Conversation(stage, process, chosen, memory).hold()
