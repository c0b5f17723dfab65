"""`run` and `exec`: a command in a sandbox, as if it were here."""

import asyncio
from typing import Annotated, NamedTuple

import typer

from contracts.commands.command import PtySize
from contracts.errors import Invalid
from contracts.spec import Isolation as Isolations
from infra.client import Sandbox
from services.cli.allow_option import AllowOption
from services.cli.arguments import SandboxThenCommand
from services.cli.hosts import network_of
from services.cli.passthrough import carry, require_terminal, terminal_size
from services.cli.secret_option import SecretOption
from services.cli.secret_values import secrets_of
from services.cli.session import connected
from services.cli.values import duration_ms, environment, inside_path, specification
from services.cli.words import progress, say

Command = Annotated[list[str], typer.Argument(help="The command and its arguments, after `--`.", metavar="-- CMD…")]
Timeout = Annotated[str | None, typer.Option(help="Time limit: 500ms, 30s, 5m, 1h. Ends as exit code 124.")]
Env = Annotated[list[str] | None, typer.Option("--env", "-e", help="NAME=VALUE, may be repeated.")]
Cwd = Annotated[str | None, typer.Option(help="Directory inside; the workspace unless given.")]
Interactive = Annotated[bool, typer.Option("-i", "--interactive", help="Pass standard input on.")]
Tty = Annotated[bool, typer.Option("-t", "--tty", help="Give it a terminal.")]
Isolation = Annotated[str | None, typer.Option(help="docker, devcontainer or local.")]
Setting = Annotated[
    list[str] | None, typer.Option("--set", help="Part of the specification: resources.memory_mb=1024. Repeatable.")
]
PASS_ON = {"allow_interspersed_args": False}


def register(app: typer.Typer) -> None:
    app.command("run", context_settings=PASS_ON)(run)
    app.command("exec", cls=SandboxThenCommand, context_settings=PASS_ON)(execute)


def wanted(
    isolation: str | None,
    settings: list[str] | None,
    secrets: list[str] | None = None,
    allow: list[str] | None = None,
) -> dict[str, object]:
    """Raises `Invalid` for what is no isolation, no setting, no secret and no host."""
    if isolation and isolation not in list(Isolations):
        raise Invalid(f"--isolation {isolation!r}: one of {', '.join(Isolations)}")
    given = specification(settings or [])
    if allow is not None:
        given["network"] = {**network_of(allow), **given.get("network", {})}
    return {
        **given,
        **({"isolation": isolation} if isolation else {}),
        **({"secrets": secrets_of(secrets)} if secrets else {}),
    }


def run(
    command: Command,
    keep: Annotated[bool, typer.Option(help="Keep the sandbox afterwards, for `exec`, `logs` and `rm`.")] = False,
    sandbox_id: Annotated[str | None, typer.Option("--id", help="The sandbox's id.")] = None,
    timeout: Timeout = None,
    env: Env = None,
    cwd: Cwd = None,
    interactive: Interactive = False,
    tty: Tty = False,
    isolation: Isolation = None,
    setting: Setting = None,
    secret: SecretOption = None,
    allow: AllowOption = None,
) -> None:
    """Run one command in a fresh sandbox, and remove the sandbox. Its record stays: `cloche logs`.

    Exits with the command's own code, 128+n if a signal ended it, 124 at the time limit.
    """
    spec = wanted(isolation, setting, secret, allow)
    how = _how(timeout, env, cwd, interactive=interactive, tty=tty)

    async def go() -> int:
        async with connected(keep=keep) as cloche:
            sandbox = await cloche.create(spec, id=sandbox_id, on_progress=progress())
            for note in sandbox.state.notes:
                say(f"cloche: {note}")
            try:
                return await _carry(sandbox, command, how)
            finally:
                if not keep:
                    await sandbox.remove(reason="its one command has ended")

    raise typer.Exit(asyncio.run(go()))


def execute(
    sandbox_id: Annotated[str, typer.Argument(metavar="SANDBOX")],
    command: Command,
    timeout: Timeout = None,
    env: Env = None,
    cwd: Cwd = None,
    interactive: Interactive = False,
    tty: Tty = False,
) -> None:
    """Run a command in a sandbox that is already there."""
    how = _how(timeout, env, cwd, interactive=interactive, tty=tty)

    async def go() -> int:
        async with connected() as cloche:
            return await _carry(await cloche.sandbox(sandbox_id), command, how)

    raise typer.Exit(asyncio.run(go()))


class _How(NamedTuple):
    timeout_ms: int | None
    env: dict[str, str]
    cwd: str | None
    stdin: bool
    pty: PtySize | None


def _how(timeout: str | None, env: list[str] | None, cwd: str | None, *, interactive: bool, tty: bool) -> _How:
    """Raises `Invalid` for a mistake, before anything is started."""
    if tty:
        require_terminal()
    return _How(
        timeout_ms=duration_ms(timeout) if timeout is not None else None,
        env=environment(env or []),
        cwd=None if cwd is None else inside_path(cwd),
        stdin=interactive or tty,
        pty=terminal_size() if tty else None,
    )


async def _carry(sandbox: Sandbox, command: list[str], how: _How) -> int:
    execution = await sandbox.start(
        command, cwd=how.cwd, env=how.env, timeout_ms=how.timeout_ms, stdin=how.stdin, pty=how.pty
    )
    return await carry(execution, stdin=how.stdin, terminal=how.pty is not None)
