"""Any agent that speaks the Agent Client Protocol over stdio, as the sandbox's image has it."""

import asyncio
from importlib import import_module
from importlib.util import find_spec

from contracts.commands.agent import StartAgent
from contracts.errors import RuntimeMissing
from services.agent.runtimes.acp import options
from services.agent.runtimes.runtime import Ending
from services.agent.stage import Stage

MARK = "CLOCHE_AGENT"
"""In the environment of the agent's program, and so of everything that it starts: the run."""
CONVERSATION = "services.agent.runtimes.acp.conversation"


class AcpRuntime:
    name = "acp"

    def check(self, order: StartAgent) -> None:
        if find_spec("acp") is None:
            raise RuntimeMissing("the runtime acp needs agent-client-protocol: pip install 'cloche[acp]'")
        options.read(order.options)

    async def drive(self, stage: Stage) -> Ending:
        chosen = options.read(stage.order.options)
        # More than a second of importing, during which other runs want to be heard.
        conversation = await asyncio.to_thread(import_module, CONVERSATION)
        env = {**chosen.env, MARK: stage.run}
        async with stage.process(chosen.argv, env=env, cwd=chosen.cwd) as process:
            ending: Ending = await conversation.hold(stage, process, chosen)
            return ending
