"""The project's lifecycle commands, run by `devcontainer up` in a container that is there already."""

import asyncio
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from contracts.errors import SandboxStartFailed
from infra.docker.engine import ASK_S, Engine
from infra.docker.errors import asking
from infra.durable import write_durably
from infra.sandbox.devcontainer.cli import Said, environment, find_cli, run_cli
from infra.sandbox.devcontainer.images import KEY_LABEL
from infra.sandbox.devcontainer.locking import locked
from infra.target import DockerTarget

UP_TIMEOUT_S = 900.0
"""For all lifecycle commands together."""
MARKERS = "/tmp/.devcontainer"  # noqa: S108 inside
"""Where the CLI notes which commands have run: it runs none where it cannot. Gone with each stop, as /tmp is."""
PLAIN = frozenset({
    "HOME", "IS_SANDBOXED", "SANDBOX_VERSION", "ALLOWED_ROOT_DIRECTORY", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL",
    "TERM", "USER",
})  # fmt: skip
"""No secrets: anybody on the host may read them in the list of processes, for the CLI hands them on to `docker exec`.
Others go by a file inside, which each command reads first."""
ENVIRONMENT = f"{MARKERS}/environment"
AT_EACH_START = "postStartCommand"
AS_ROOT = ("patchEtcEnvironment", "patchEtcProfile")
OVERRIDE = "override.json"
ONCE = ("onCreateCommand", "updateContentCommand", "postCreateCommand")


class Lifecycle(NamedTuple):
    image: str
    workspace: str
    env: Mapping[str, str]
    scratch: Path
    """A directory of the node's own."""

    async def run(self, engine: Engine, target: DockerTarget, *, again: bool) -> None:
        """What the container's label says is to run; with `again`, only what runs at every start.

        Raises `SandboxStartFailed` with what was printed last when a command fails, `Unavailable` without CLI.
        """
        cli = find_cli()
        key, created = await _identify(engine, target.container)
        await _note_as_done(engine, target, dict.fromkeys(ONCE, created) if again else {}, self.env)
        async with locked(self.scratch / "up.lock", UP_TIMEOUT_S) as held:
            await asyncio.to_thread(self._prepare)
            try:
                env = environment(engine.address, self._folder)
                said = Said(value for name, value in self.env.items() if name not in PLAIN)
                await run_cli(self._argv(cli, key), env, held, UP_TIMEOUT_S, said, SandboxStartFailed)
            finally:
                await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    @property
    def _folder(self) -> Path:
        return self.scratch / "up"

    def _prepare(self) -> None:
        self._folder.mkdir(mode=0o700, exist_ok=True)
        write_durably(self._folder / OVERRIDE, msgspec.json.encode(_override(self.image, self.workspace)))

    def _argv(self, cli: str, key: str) -> tuple[str, ...]:
        folder = str(self._folder)
        plain = [f"{name}={self.env[name]}" for name in sorted(PLAIN & self.env.keys())]
        return (
            *(cli, "up", "--workspace-folder", folder, "--override-config", f"{folder}/{OVERRIDE}"),
            *("--id-label", f"{KEY_LABEL}={key}", "--expect-existing-container", "--log-format", "json"),
            *("--container-data-folder", MARKERS, "--container-system-data-folder", MARKERS),
            *("--user-data-folder", folder),
            *(part for pair in plain for part in ("--remote-env", pair)),
            *("--skip-post-attach", "--gpu-availability", "none", "--mount-workspace-git-root", "false"),
        )


def _override(image: str, workspace: str) -> dict[str, object]:
    """In place of the project's own. What makes the container safe is in the container, which this cannot change."""
    return {
        "image": image,
        "workspaceFolder": workspace,
        "workspaceMount": "",
        "updateRemoteUserUID": False,
        "userEnvProbe": "none",
    }


async def _identify(engine: Engine, container: str) -> tuple[str, str]:
    async with asking(f"inspect container {container[:12]}", ASK_S):
        found = await (await engine.client()).containers.container(container).show()
        return found["Config"]["Labels"][KEY_LABEL], found["Created"]


def with_environment(command: Any) -> Any:
    """The same lifecycle command, run with the variables that wait for it in the container."""
    match command:
        case str():
            return f". {ENVIRONMENT}\n{command}"
        case list():
            return ["/bin/sh", "-c", f'. {ENVIRONMENT}; exec "$@"', "sh", *command]
        case dict():
            return {name: with_environment(each) for name, each in command.items()}
    return command


async def _note_as_done(
    engine: Engine, target: DockerTarget, commands: Mapping[str, str], env: Mapping[str, str]
) -> None:
    """In the words of the CLI, which compares them with the time when the container was made. And the variables.

    What it would do as root, it takes for done as well: nothing ever runs as root inside.
    """
    notes = {**commands, **dict.fromkeys(AS_ROOT, "")}
    writing = "".join(f" && echo {said} > {MARKERS}/.{name}Marker" for name, said in notes.items())
    async with asking("note which commands have run", ASK_S):
        container = (await engine.client()).containers.container(target.container)
        script = f"umask 077 && mkdir -p {MARKERS} && export -p > {ENVIRONMENT}{writing}"
        execution = await container.exec(["/bin/sh", "-c", script], user=target.user, environment=dict(env))
        async with execution.start(detach=False) as stream:
            while await stream.read_out() is not None:
                continue
        if (await execution.inspect())["ExitCode"] != 0:
            raise SandboxStartFailed(f"lifecycle commands need /bin/sh in the image, and room in {MARKERS}")
