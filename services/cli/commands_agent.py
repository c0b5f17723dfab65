"""`agent`: start agents in sandboxes, watch them, speak to them, answer what they ask."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated

import typer

from contracts.commands.agent import StartAgent
from contracts.errors import Invalid
from infra.client import Cloche
from infra.client.agent_run import AgentRun
from services.cli import agent_options, agent_tables, show
from services.cli.agent_asking import Json, SandboxId, Text, ask, print_begun, print_said
from services.cli.agent_beginning import say_or_go_on
from services.cli.agent_chat import Chat
from services.cli.agent_following import follow as follow_run
from services.cli.agent_narrator import at_the_shell
from services.cli.agent_runtimes import print_runtimes, require_runtime
from services.cli.commands_steering import approve, guide, interrupt, pause, pending, reject, resume, stop
from services.cli.session import connected
from services.cli.values import duration_ms
from services.cli.words import say as tell

Words = list[str] | None

RunId = Annotated[str | None, typer.Argument(metavar="[RUN]", help="The newest unless given.")]
Follow = Annotated[bool, typer.Option("-f", "--follow", help="Show what it says and does, to the end.")]
Runtime = Annotated[str | None, typer.Option(help="What runs it: see `cloche agent runtimes`.")]
Model = Annotated[str | None, typer.Option(help="As the runtime calls it.")]
Script = Annotated[
    Path | None, typer.Option(metavar="FILE", help="For runtime `script`: what it does, as YAML or JSON.")
]
Rules = Annotated[Words, typer.Option(metavar="TOOL[:PATTERN]", help="Wait for your answer before these. Repeatable.")]
Denied = Annotated[Words, typer.Option(metavar="TOOL[:PATTERN]", help="Never these. Repeatable.")]
Granted = Annotated[Words, typer.Option(metavar="TOOL[:PATTERN]", help="These unasked. Repeatable.")]
Option = Annotated[Words, typer.Option(metavar="NAME=VALUE", help="What only this runtime knows. Repeatable.")]

HELP = """Agents inside sandboxes: start them, watch them, speak to them while they work.

\b
    cloche agent start SANDBOX --runtime claude --prompt 'Make the tests pass' -f
    cloche agent say SANDBOX 'Leave the API as it is'
    cloche agent chat SANDBOX
"""


def register(app: typer.Typer) -> None:
    group = typer.Typer(help=HELP, no_args_is_help=True, suggest_commands=False, rich_markup_mode=None)
    for name, command in (
        ("start", start),
        ("chat", chat),
        ("say", say),
        ("guide", guide),
        ("interrupt", interrupt),
        ("pause", pause),
        ("resume", resume),
        ("stop", stop),
        ("pending", pending),
        ("approve", approve),
        ("reject", reject),
        ("follow", follow),
        ("ls", ls),
        ("show", show_run),
        ("runtimes", runtimes),
    ):
        group.command(name)(command)
    app.add_typer(group, name="agent")


def start(
    sandbox_id: SandboxId,
    prompt: Annotated[str | None, typer.Option(help="What it is to do; `-` reads standard input.")] = None,
    runtime: Runtime = None,
    script: Script = None,
    follow: Follow = False,
    keep_open: Annotated[
        bool, typer.Option("--keep-open", help="When a turn is over it waits for the next message.")
    ] = False,
    resume: Annotated[
        str | None,
        typer.Option(metavar="RUN", help="Go on with this run's conversation, also of a fork's origin."),
    ] = None,
    model: Model = None,
    ask: Rules = None,
    deny: Denied = None,
    auto: Granted = None,
    answer_within: Annotated[
        str | None, typer.Option(metavar="TIME", help="What is not answered by then is denied: 30s, 5m, 1h.")
    ] = None,
    max_usd: Annotated[float | None, typer.Option(help="Ends it when it has cost so much.")] = None,
    max_tokens: Annotated[int | None, typer.Option(min=1, help="Or used so many tokens.")] = None,
    max_turns: Annotated[int | None, typer.Option(min=1, help="Or had so many turns.")] = None,
    timeout: Annotated[str | None, typer.Option(help="Or so much time: 30s, 5m, 1h; pauses do not count.")] = None,
    option: Option = None,
    json: Json = False,
) -> None:
    """Start an agent in a sandbox, and print the run's id. It goes on by itself: close the terminal if you like.

    With -f it is shown to the end: exit code 0 when it is completed, 1 when it fails. Ctrl-C leaves it running.

    Of --deny, --ask and --auto, denials count first, then whatever says more: `--ask Bash --auto 'Bash:git *'` asks
    for every shell command but git. Where none matches everything goes, as far as the sandbox lets it.

    \b
    Example: cloche agent start demo --runtime claude --ask 'Bash:git push*' -f \\
                 --prompt 'Fix the failing test'
    """
    order = StartAgent(
        runtime=require_runtime(runtime, has_script=script is not None),
        prompt=_prompt(prompt, has_script=script is not None),
        resume=resume,
        keep_open=keep_open,
        approvals=agent_options.rules(deny, ask, auto),
        approval_timeout_ms=None if answer_within is None else duration_ms(answer_within),
        model=model,
        max_budget_usd=_positive(max_usd),
        max_turns=max_turns,
        max_tokens=max_tokens,
        timeout_ms=None if timeout is None else duration_ms(timeout),
        options=_options(option, script),
    )

    async def go(cloche: Cloche) -> int:
        run = await (await cloche.sandbox(sandbox_id)).agent.begin(order)
        if follow:
            return await _followed(run, json=json)
        print_begun(run, json=json)
        return 0

    raise typer.Exit(_with_node(go, sandbox_id))


def say(
    sandbox_id: SandboxId,
    text: Text,
    follow: Annotated[
        bool, typer.Option("-f", "--follow", help="Show what comes of it, until its turn is over.")
    ] = False,
    json: Json = False,
) -> None:
    """Say something to the agent: before its next tool call if it is at work, else as its next turn.

    When no run is open, a new one goes on from the last, with the same runtime and options.
    """
    words = " ".join(text)

    async def go(cloche: Cloche) -> int:
        agent = (await cloche.sandbox(sandbox_id)).agent
        said = await say_or_go_on(agent, words)
        if isinstance(said, AgentRun):
            tell(f"no run was open: {said.id} goes on from {said.started.resumed}")
        if not follow:
            print_said(said, "said to", json=json)
            return 0
        run = said if isinstance(said, AgentRun) else await agent.run(said.run)
        start = None if isinstance(said, AgentRun) else said.sequence
        return await _followed(run, start=start, json=json, one_turn=True)

    raise typer.Exit(_with_node(go, sandbox_id))


def ls(sandbox_id: SandboxId, json: Json = False) -> None:
    """The runs of a sandbox, oldest first. Also once it is gone."""

    async def go(cloche: Cloche) -> None:
        found = await (await cloche.sandbox(sandbox_id)).agent.runs()
        if json:
            for run in found:
                show.json_line(run)
        elif found:
            agent_tables.print_runs(found)
        else:
            tell(f"no agent has run in sandbox {sandbox_id!r}: see `cloche agent start --help`")

    ask(go)


def show_run(sandbox_id: SandboxId, run_id: RunId = None, json: Json = False) -> None:
    """How a run stands: what it is to do and may spend, what it has spent, what it waits for, its last words."""

    async def go(cloche: Cloche) -> None:
        run = await (await cloche.sandbox(sandbox_id)).agent.run(run_id)
        state = await run.state()
        if json:
            show.json_line(state)
        else:
            agent_tables.print_run(sandbox_id, state, run.started, await run.last_words())

    ask(go)


def follow(
    sandbox_id: SandboxId,
    run_id: RunId = None,
    new: Annotated[bool, typer.Option("--new", help="Only what comes from now on.")] = False,
    json: Json = False,
) -> None:
    """The story of a run from its beginning, and on to its end: exit code 0 when it is completed, 1 when it fails.

    Also of one that is over, and of a sandbox that is gone.
    """

    async def go(cloche: Cloche) -> int:
        run = await (await cloche.sandbox(sandbox_id)).agent.run(run_id)
        return await _followed(run, start=await run.next_sequence() if new else None, json=json)

    raise typer.Exit(_with_node(go, sandbox_id, keep=False))


def chat(
    sandbox_id: SandboxId,
    runtime: Runtime = None,
    script: Script = None,
    model: Model = None,
    ask: Rules = None,
    deny: Denied = None,
    auto: Granted = None,
    option: Option = None,
) -> None:
    """Talk with the agent of a sandbox: what it says and does above, a line to type below.

    Where none has run yet, --runtime says which is to begin with your first line. /help shows what else can be typed:
    /interrupt, /approve, /reject, /pause, /resume, /stop, /quit. Leaving does not end the agent.

    Without a terminal, each line of standard input is a message, said when the agent has answered the one before.
    """
    order = None
    if runtime is not None or script is not None:
        order = StartAgent(
            runtime=require_runtime(runtime, has_script=script is not None),
            prompt="-",
            keep_open=True,
            approvals=agent_options.rules(deny, ask, auto),
            model=model,
            options=_options(option, script),
        )
    elif model or ask or deny or auto or option:
        raise Invalid(
            "--model, --ask, --deny, --auto and --option are for a run that is begun here: name its --runtime"
        )

    async def go(cloche: Cloche) -> int:
        sandbox = await cloche.sandbox(sandbox_id)
        talk = Chat(sandbox.agent, sandbox.id, order)
        await talk.talk()
        if talk.goes_on:
            tell(_comes_back(sandbox_id))
        return 1 if talk.failed else 0

    raise typer.Exit(_with_node(go, sandbox_id))


def runtimes(json: Json = False) -> None:
    """The runtimes that there are, and how to install what one lacks."""
    print_runtimes(json=json)


async def _followed(run: AgentRun, *, start: int | None = None, json: bool, one_turn: bool = False) -> int:
    return await follow_run(run, at_the_shell(run.sandbox), start=start, json=json, one_turn=one_turn)


def _with_node(go: Callable[[Cloche], Awaitable[int]], sandbox_id: str, *, keep: bool = True) -> int:
    """`keep`: the node stays up, because the agent goes on."""

    async def connect() -> int:
        async with connected(keep=keep) as cloche:
            return await go(cloche)

    try:
        return asyncio.run(connect())
    except KeyboardInterrupt:
        tell(f"\n{_comes_back(sandbox_id)}")
        return 130


def _comes_back(sandbox_id: str) -> str:
    return (
        f"whatever runs goes on: `cloche agent follow {sandbox_id}` shows it, `cloche agent stop {sandbox_id}` ends it"
    )


def _prompt(given: str | None, *, has_script: bool) -> str:
    found = agent_options.prompt(given) or ("go" if has_script else None)
    if found is None or not found.strip():
        raise Invalid("--prompt says what it is to do; `--prompt -` reads it from standard input")
    return found


def _options(pairs: Words, script: Path | None) -> dict[str, object]:
    found = agent_options.options(pairs)
    return found if script is None else {**found, "script": agent_options.script(script)}


def _positive(usd: float | None) -> float | None:
    if usd is not None and usd <= 0:
        raise Invalid(f"--max-usd {usd:g} is not more than nothing")
    return usd
