"""`net`: what leaves a sandbox, what was denied, what waits for an answer; and the policy, changed live."""

import asyncio
from contextlib import suppress
from typing import Annotated, NamedTuple

import typer

from contracts import codec
from contracts.errors import SandboxNotFound
from contracts.spec import Network, NetworkMode
from contracts.state import Status
from infra.client import Sandbox
from services.cli import requests_table, show
from services.cli.hosts import allowed
from services.cli.policy_change import Changes, changed
from services.cli.session import connected
from services.cli.taken_back import approved_of
from services.cli.words import say

Words = list[str] | None


def register(app: typer.Typer) -> None:
    app.command("net")(net)


class _Answers(NamedTuple):
    approve: Words
    reject: Words
    remember: bool
    reason: str


def net(
    sandbox_id: Annotated[str, typer.Argument(metavar="SANDBOX")],
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on with what comes.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
    allow: Annotated[Words, typer.Option(metavar="HOST|PRESET,…", help="Allow these besides.")] = None,
    deny: Annotated[Words, typer.Option(metavar="HOST|PRESET,…", help="Allow these no longer.")] = None,
    port: Annotated[list[int] | None, typer.Option(help="Allow this port besides. Repeatable.")] = None,
    no_port: Annotated[list[int] | None, typer.Option(help="Allow this port no longer. Repeatable.")] = None,
    mode: Annotated[
        NetworkMode | None, typer.Option(metavar="none|restricted", help="Whether there is a way out at all.")
    ] = None,
    ask: Annotated[bool | None, typer.Option(help="Whether unknown hosts wait for an answer or are denied.")] = None,
    approve: Annotated[Words, typer.Option(metavar="ID", help="Let through what waits; `all` of it.")] = None,
    reject: Annotated[
        Words, typer.Option(metavar="ID", help="Deny what waits, `all` of it, or take an approval back.")
    ] = None,
    remember: Annotated[
        bool, typer.Option("--remember", help="The answer holds for as long as the sandbox exists.")
    ] = False,
    reason: Annotated[str, typer.Option(help="Goes on the record with the answer.")] = "",
) -> None:
    """What a sandbox asked of the network: passed, denied, or waiting for an answer. Also after it is gone.

    With --allow, --deny, --port, --no-port, --mode or --ask the policy changes, at once: what is no longer allowed is
    cut.

    Example: cloche net demo --allow pip,example.com
    """
    changes = Changes(allow, deny, port, no_port, mode, ask)
    answers = _Answers(approve, reject, remember, reason)

    async def go() -> None:
        async with connected() as cloche:
            sandbox = await cloche.sandbox(sandbox_id)
            if approve or reject:
                await _answer(sandbox, answers)
            if changes.any():
                _say_policy(await _change(sandbox, changes), json=json)
            if follow or not (approve or reject or changes.any()):
                await _show(sandbox, follow=follow, json=json)

    # Leaving is what Ctrl-C is for here.
    with suppress(KeyboardInterrupt):
        asyncio.run(go())


async def _change(sandbox: Sandbox, changes: Changes) -> Network:
    policy = await sandbox.net.policy()
    wanted = changed(policy, changes)
    revoked = await _revoke(sandbox, changes.deny or [])
    if not wanted and not revoked:
        return policy
    return await sandbox.network(**wanted) if wanted else policy


async def _revoke(sandbox: Sandbox, deny: list[str]) -> bool:
    """What was approved for a host is taken back with it."""
    denied = allowed(deny, "--deny").hosts
    if not denied:
        return False
    events = sandbox.events(types=["network.approved", "network.rejected"])
    found = approved_of(denied, [codec.decode_fact(event.head) async for event in events])
    for approval in found:
        await sandbox.reject_network(approval, reason="cloche net --deny", remember=False)
    return bool(found)


async def _answer(sandbox: Sandbox, answers: _Answers) -> None:
    if sandbox.state.status == Status.REMOVED:
        raise SandboxNotFound(f"sandbox {sandbox.id!r} is removed: nothing in it waits")
    waiting = [ask.approval for ask in (await sandbox.net.approvals()).pending]
    for approval in _ids(answers.approve, waiting):
        await sandbox.approve_network(approval, reason=answers.reason, remember=answers.remember)
        print(f"{approval} approved")
    for approval in _ids(answers.reject, waiting):
        await sandbox.reject_network(approval, reason=answers.reason, remember=answers.remember)
        print(f"{approval} rejected")


def _ids(given: Words, waiting: list[str]) -> list[str]:
    words = [word for text in given or [] for word in text.split(",") if word]
    if words == ["all"]:
        return waiting
    return words


def _say_policy(policy: Network, *, json: bool) -> None:
    if json:
        show.json_line(policy)
        return
    for line in requests_table.policy_lines(policy):
        print(line)


async def _show(sandbox: Sandbox, *, follow: bool, json: bool) -> None:
    view = requests_table.View(json=json)
    if not json:
        for line in requests_table.policy_lines(await sandbox.net.policy()):
            say(line)
        view.pending(sandbox.id, (await sandbox.net.approvals()).pending)
    async for told in sandbox.net.requests(sandbox.state.first_sequence, follow=follow):
        view.add(told)
    view.end(sandbox.id)
