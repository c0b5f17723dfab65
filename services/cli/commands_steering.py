"""The part of `agent` that speaks to a run that is open: guidance, interrupts, pauses, answers."""

from collections.abc import Awaitable, Callable
from typing import Annotated

import msgspec
import typer

from contracts import runs
from contracts.queries import ListSandboxes
from infra import clock
from infra.client import Cloche, Sandbox
from infra.client.agent import Agent, Asked, Said
from infra.words.agent_summaries import TOO_DEEP, as_json
from services.cli import agent_tables, show
from services.cli.agent_answers import named, require_seen
from services.cli.agent_asking import Json, SandboxId, Text, ask, print_said
from services.cli.agent_question import answered_lines
from services.cli.agent_screen import print_lines
from services.cli.agent_tables import Asking
from services.cli.words import say as tell

Approval = Annotated[
    str | None, typer.Argument(metavar="[APPROVAL]", help="Its id, or the beginning of it; needless for a single one.")
]
Reason = Annotated[str, typer.Option(help="Goes on the record; the agent hears why it was denied.")]


def guide(sandbox_id: SandboxId, text: Text, json: Json = False) -> None:
    """A word of guidance beside the conversation, such as the guardian's. Heard as `say` is."""
    _steer(sandbox_id, lambda sandbox: sandbox.agent.guide(" ".join(text)), "said to", json=json)


def interrupt(
    sandbox_id: SandboxId,
    reason: Annotated[str, typer.Option(help="Goes on the record.")] = "asked",
    json: Json = False,
) -> None:
    """Stop what the agent does now, with every process of it. Then it waits: tell it how to go on with `say`."""
    _steer(sandbox_id, lambda sandbox: sandbox.agent.interrupt(reason, wait=True), "interrupted", json=json)


def pause(
    sandbox_id: SandboxId,
    reason: Annotated[str, typer.Option(help="Goes on the record.")] = "asked",
    json: Json = False,
) -> None:
    """Freeze the agent and all of its processes where they are."""
    _steer(sandbox_id, lambda sandbox: sandbox.agent.pause(reason, wait=True), "paused", json=json)


def resume(sandbox_id: SandboxId, json: Json = False) -> None:
    """Let a paused agent go on."""
    _steer(sandbox_id, lambda sandbox: sandbox.agent.resume(wait=True), "resumed", json=json)


def stop(
    sandbox_id: SandboxId,
    reason: Annotated[str, typer.Option(help="Goes on the record.")] = "asked",
    json: Json = False,
) -> None:
    """End the run, and its process with it. The sandbox stays; `say` begins a run that goes on from it."""
    _steer(sandbox_id, lambda sandbox: sandbox.agent.stop(reason, wait=True), "stopped", json=json)


def approve(
    sandbox_id: SandboxId,
    approval: Approval = None,
    reason: Reason = "",
    remember: Annotated[
        bool, typer.Option("--remember", help="The same tool about the same is not asked for again in this run.")
    ] = False,
    json: Json = False,
) -> None:
    """Let the agent make a tool call that it asks for, and print which. See `cloche agent pending`.

    What is too long to be shown whole has to be named by its id.
    """

    async def go(agent: Agent, asked: Asked) -> Said:
        require_seen(asked, approval or "")
        return await agent.approve(asked.request.approval, reason=reason, remember=remember)

    _answer(sandbox_id, approval, go, "approved", json=json)


def reject(sandbox_id: SandboxId, approval: Approval = None, reason: Reason = "", json: Json = False) -> None:
    """Deny a tool call that the agent asks for."""

    async def go(agent: Agent, asked: Asked) -> Said:
        return await agent.reject(asked.request.approval, reason=reason)

    _answer(sandbox_id, approval, go, "rejected", json=json)


def pending(
    sandbox_id: Annotated[str | None, typer.Argument(metavar="[SANDBOX]", help="All unless given.")] = None,
    approval: Annotated[
        str | None, typer.Argument(metavar="[APPROVAL]", help="Only this one, however long it is.")
    ] = None,
    json: Json = False,
) -> None:
    """Tool calls that wait for your answer, with all of their arguments."""
    found = ask(lambda cloche: _pending(cloche, sandbox_id, approval))
    if json:
        for each in found:
            show.json_line(_as_json(each))
    elif not found:
        tell("nothing waits for an answer")
    else:
        agent_tables.print_pending(found, clock.now(), whole=approval is not None)
        tell("`cloche agent approve SANDBOX [APPROVAL]`, or `reject`")


async def _pending(cloche: Cloche, sandbox_id: str | None, approval: str | None) -> list[Asking]:
    found: list[Asking] = []
    for name in await _asking(cloche) if sandbox_id is None else [sandbox_id]:
        pending = await (await cloche.sandbox(name)).agent.pending()
        found += [Asking(name, each) for each in (pending if approval is None else [named(pending, approval)])]
    return found


async def _asking(cloche: Cloche) -> list[str]:
    """The sandboxes whose agents seem to wait for somebody."""
    names: list[str] = []
    after = None
    while True:
        page = await cloche.sandboxes(ListSandboxes(after=after))
        names += [state.sandbox for state in page.sandboxes if any(run.is_open and run.pending for run in state.runs)]
        if not page.more:
            return names
        after = page.sandboxes[-1].sandbox


def _as_json(asking: Asking) -> dict[str, object]:
    asked = asking.asked
    pending = msgspec.to_builtins(runs.pending(asked.at, asked.request))
    text = as_json(asked.request.input)
    given = TOO_DEEP if text == TOO_DEEP else msgspec.Raw(text.encode())
    return {"sandbox": asking.sandbox, "run": asked.run, "pending": {**pending, "input": given}}


def _answer(
    sandbox_id: str,
    approval: str | None,
    give: Callable[[Agent, Asked], Awaitable[Said]],
    done: str,
    *,
    json: bool,
) -> None:
    async def go(cloche: Cloche) -> None:
        agent = (await cloche.sandbox(sandbox_id)).agent
        asked = named(await agent.pending(), approval)
        said = await give(agent, asked)
        if json:
            show.json_line({**said._asdict(), "approval": asked.request.approval, "tool": asked.request.tool})
        else:
            print_lines(answered_lines(f"{done} in {said.run} [{said.sequence}]", asked.request))

    ask(go)


def _steer(sandbox_id: str, act: Callable[[Sandbox], Awaitable[Said]], done: str, *, json: bool) -> None:
    async def go(cloche: Cloche) -> None:
        print_said(await act(await cloche.sandbox(sandbox_id)), done, json=json)

    ask(go)
