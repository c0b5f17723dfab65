"""How a run is begun again where the last one ended."""

from msgspec.structs import replace

from contracts.commands.agent import StartAgent
from contracts.errors import Invalid, SandboxInvalidState
from contracts.events.agent import AgentStarted
from contracts.runs import RunState
from infra.client.agent import Agent, Said, typed_rules
from infra.client.agent_run import AgentRun


def going_on_from(last: AgentStarted, prompt: str, *, keep_open: bool | None = None) -> StartAgent:
    """As the last was started, with its conversation."""
    return StartAgent(
        runtime=last.runtime,
        prompt=prompt,
        resume=last.run,
        keep_open=last.keep_open if keep_open is None else keep_open,
        # The node's own rules are among them, and are added to every run.
        approvals=typed_rules(last.approvals),
        approval_timeout_ms=last.approval_timeout_ms,
        model=last.model,
        max_budget_usd=last.max_budget_usd,
        max_turns=last.max_turns,
        max_tokens=last.max_tokens,
        timeout_ms=last.timeout_ms,
        options=last.options,
    )


async def say_or_go_on(agent: Agent, text: str, *, keep_open: bool | None = None) -> Said | AgentRun:
    """To the run that is open; where none is, a new one goes on from the last. One that is about to end is waited for.

    Raises `SandboxInvalidState` where there was none.
    """
    last = await agent.newest()
    if last is None or _hears(await last.state()):
        try:
            return await agent.message(text)
        except SandboxInvalidState:
            if last is None or _hears(await last.state()):
                raise
    await last.wait()
    return await agent.begin(going_on_from(last.started, text, keep_open=keep_open))


def _hears(state: RunState) -> bool:
    return state.is_open and not state.closing


def first_of(order: StartAgent | None, sandbox: str, text: str) -> StartAgent:
    """The very first run of a sandbox. Raises `Invalid` where nobody said which runtime."""
    if order is None:
        raise Invalid(
            f"no agent has run in sandbox {sandbox!r}: start one with `cloche agent start {sandbox} --runtime …`"
        )
    return replace(order, prompt=text)
