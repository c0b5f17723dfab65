"""Agents of the Claude Agent SDK: its Python half here, its CLI in the sandbox."""

import asyncio
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from contracts.commands.agent import StartAgent
from contracts.errors import RuntimeMissing
from services.agent.runtimes.claude.options import parse
from services.agent.runtimes.runtime import Ending
from services.agent.stage import Stage

PACKAGE = "services.agent.runtimes.claude"
GOES_ON = "[SYSTEM] The program that you run in was started anew. See how things are, then go on."


class ClaudeRuntime:
    name = "claude"

    def check(self, order: StartAgent) -> None:
        """Raises `RuntimeMissing`, `Invalid`."""
        if find_spec("claude_agent_sdk") is None:
            raise RuntimeMissing("the runtime 'claude' needs claude-agent-sdk: pip install 'cloche[claude]'")
        parse(order.options)

    async def drive(self, stage: Stage) -> Ending:
        # Loading the SDK takes a while, during which the other runs go on.
        conversation: Any = await asyncio.to_thread(import_module, f"{PACKAGE}.conversation")
        sessions: Any = await asyncio.to_thread(import_module, f"{PACKAGE}.sessions")
        lines: Any = await asyncio.to_thread(import_module, f"{PACKAGE}.command_line")
        order, options = stage.order, parse(stage.order.options)
        session = await sessions.find_session(stage, lines.token(stage.run, str(stage.attempt)))
        if session.documents and not stage.has_process:
            # Otherwise the program has these files in use.
            await sessions.put_in_place(stage, session)
        sdk = lines.sdk_options(order, options)
        budget = None if order.max_budget_usd is None else order.max_budget_usd + session.spent_usd
        argv = lines.argv(sdk, options.cli, session.id, resume=bool(session.documents), budget=budget)
        async with stage.process(argv, env=lines.environment(options, stage.state.spec)) as process:
            talk = await conversation.begin(stage, process, session)
            ending: Ending = await talk.hold(sdk, _prompt(stage, goes_on=bool(session.documents)))
        return ending


def _prompt(stage: Stage, *, goes_on: bool) -> str:
    if stage.attempt == 1:
        return stage.order.prompt
    story = stage.story or GOES_ON
    return story if goes_on else f"{stage.order.prompt}\n\n{story}"
