"""The project's lifecycle commands, run by `devcontainer up` in a container that is there already."""

import asyncio
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

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
"""No secrets: anybody on the host may read them in the list of processes. Others go by a file, and the CLI strikes
out their values wherever it shows what was printed."""
AT_EACH_START = "postStartCommand"
AS_ROOT = ("patchEtcEnvironment", "patchEtcProfile")
SECRETS, OVERRIDE = "secrets.json", "override.json"
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
        await _note_as_done(engine, target, dict.fromkeys(ONCE, created) if again else {})
        async with locked(self.scratch / "up.lock", UP_TIMEOUT_S) as held:
            await asyncio.to_thread(self._prepare)
            try:
                env = environment(engine.address, self._folder)
                await run_cli(self._argv(cli, key), env, held, UP_TIMEOUT_S, Said(), SandboxStartFailed)
            finally:
                await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    @property
    def _folder(self) -> Path:
        return self.scratch / "up"

    def _prepare(self) -> None:
        self._folder.mkdir(mode=0o700, exist_ok=True)
        hidden = {name: value for name, value in self.env.items() if name not in PLAIN}
        write_durably(self._folder / SECRETS, msgspec.json.encode(hidden))
        write_durably(self._folder / OVERRIDE, msgspec.json.encode(_override(self.image, self.workspace)))

    def _argv(self, cli: str, key: str) -> tuple[str, ...]:
        folder = str(self._folder)
        plain = [f"{name}={self.env[name]}" for name in sorted(PLAIN & self.env.keys())]
        return (
            *(cli, "up", "--workspace-folder", folder, "--override-config", f"{folder}/{OVERRIDE}"),
            *("--id-label", f"{KEY_LABEL}={key}", "--expect-existing-container", "--log-format", "json"),
            *("--container-data-folder", MARKERS, "--container-system-data-folder", MARKERS),
            *("--user-data-folder", folder),
            *("--secrets-file", f"{folder}/{SECRETS}", *(part for pair in plain for part in ("--remote-env", pair))),
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


async def _note_as_done(engine: Engine, target: DockerTarget, commands: Mapping[str, str]) -> None:
    """In the words of the CLI, which compares them with the time when the container was made.

    What it would do as root, it takes for done as well: nothing ever runs as root inside.
    """
    notes = {**commands, **dict.fromkeys(AS_ROOT, "")}
    writing = "".join(f" && echo {said} > {MARKERS}/.{name}Marker" for name, said in notes.items())
    async with asking("note which commands have run", ASK_S):
        container = (await engine.client()).containers.container(target.container)
        execution = await container.exec(["/bin/sh", "-c", f"mkdir -p {MARKERS}{writing}"], user=target.user)
        async with execution.start(detach=False) as stream:
            while await stream.read_out() is not None:
                continue
        if (await execution.inspect())["ExitCode"] != 0:
            raise SandboxStartFailed(f"lifecycle commands need /bin/sh in the image, and room in {MARKERS}")
