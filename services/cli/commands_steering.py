"""The part of `agent` that speaks to a run that is open: guidance, interrupts, pauses, answers."""

from collections.abc import Awaitable, Callable
from typing import Annotated

import typer

from contracts.queries import ListSandboxes
from infra import clock
from infra.client import Cloche, Sandbox
from infra.client.agent import Said
from services.cli import agent_tables, show
from services.cli.agent_answers import named
from services.cli.agent_asking import Json, SandboxId, Text, ask, print_said
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
    """Let the agent make a tool call that it asks for. See `cloche agent pending`."""

    async def go(sandbox: Sandbox) -> Said:
        asked = named(await sandbox.agent.pending(), approval)
        return await sandbox.agent.approve(asked.request.approval, reason=reason, remember=remember)

    _steer(sandbox_id, go, "approved in", json=json)


def reject(sandbox_id: SandboxId, approval: Approval = None, reason: Reason = "", json: Json = False) -> None:
    """Deny a tool call that the agent asks for."""

    async def go(sandbox: Sandbox) -> Said:
        asked = named(await sandbox.agent.pending(), approval)
        return await sandbox.agent.reject(asked.request.approval, reason=reason)

    _steer(sandbox_id, go, "rejected in", json=json)


def pending(
    sandbox_id: Annotated[str | None, typer.Argument(metavar="[SANDBOX]", help="All unless given.")] = None,
    json: Json = False,
) -> None:
    """Tool calls that wait for your answer."""
    found = ask(lambda cloche: _pending(cloche, sandbox_id))
    if json:
        for each in found:
            show.json_line(each._asdict())
    elif not found:
        tell("nothing waits for an answer")
    else:
        agent_tables.print_pending(found, clock.now())
        tell("`cloche agent approve SANDBOX [APPROVAL]`, or `reject`")


async def _pending(cloche: Cloche, sandbox_id: str | None) -> list[Asking]:
    states = []
    if sandbox_id is not None:
        run = await (await cloche.sandbox(sandbox_id)).agent.newest()
        states = [] if run is None else [(sandbox_id, await run.state())]
    else:
        after = None
        while True:
            page = await cloche.sandboxes(ListSandboxes(after=after))
            states += [(state.sandbox, run) for state in page.sandboxes for run in state.runs]
            if not page.more:
                break
            after = page.sandboxes[-1].sandbox
    return [
        Asking(name, run.run, each) for name, run in states for each in run.pending if run.is_open and not each.answered
    ]


def _steer(sandbox_id: str, act: Callable[[Sandbox], Awaitable[Said]], done: str, *, json: bool) -> None:
    async def go(cloche: Cloche) -> None:
        print_said(await act(await cloche.sandbox(sandbox_id)), done, json=json)

    ask(go)
