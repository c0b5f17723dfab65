"""compose.yaml, up under a name, a directory and a port of its own."""

import os
import secrets
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import httpx
import pytest
import yaml

from infra.docker.finding import UNIX, require_engine
from infra.ports import free_port
from infra.sandbox.docker.layout import DataFiles
from tests.compose.image import ROOT
from tests.images import require_docker

ONCE = ("prepare", "provision")
"""Services that end when they have done their work."""
TOOLS = ("cli", "backup", "restore")
"""Services that run when somebody asks."""
SERVICES = frozenset(yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]) - set(TOOLS)
COMMAND_S = 300
HEALTHY_S = 300


def compose_program() -> list[str]:
    """Skips the test where there is none; in CI, where there must be one, fails it."""
    require_docker()
    if program := shutil.which("docker-compose"):
        return [program]
    if subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode == 0:
        return ["docker", "compose"]
    return give_up("neither docker-compose nor docker compose is here")


def give_up(why: str) -> NoReturn:
    """Skips the test; where there must be Docker, fails it."""
    if os.environ.get("CI") == "true" or os.environ.get("CLOCHE_REQUIRE_DOCKER"):
        pytest.fail(f"{why}, and here it must be tried")
    pytest.skip(why)


class Seen(NamedTuple):
    service: str
    id: str
    status: str


class Stack:
    def __init__(self, home: Path, image: str) -> None:
        self._program = compose_program()
        self._port = free_port()
        self.home = home
        self._environment = {
            **os.environ,
            "COMPOSE_PROJECT_NAME": f"cloche-test-{secrets.token_hex(4)}",
            "CLOCHE_HOME": str(home),
            "CLOCHE_ENGINE": require_engine().removeprefix(UNIX),
            "CLOCHE_LISTEN": f"127.0.0.1:{self._port}",
            "CLOCHE_HEALTH_INTERVAL": "8s",
            "CLOCHE_POOL": "0",
            "CLOCHE_NODE": "green",
            "CLOCHE_IMAGE": image,
            "CLOCHE_KEEPER_IMAGE": image,
        }

    def up(self, image: str | None = None, only: tuple[str, ...] = ()) -> None:
        """Returns when every service, or each of these, has said that it is well."""
        if image is not None:
            self._environment["CLOCHE_IMAGE"] = image
        self.run("up", "--detach", *only)
        self._until_healthy(set(only or SERVICES) - set(ONCE))

    def down(self, *options: str) -> None:
        self.run("down", "--timeout", "20", *options)

    def discard(self) -> None:
        """With its volumes, and what a test that failed left of sandboxes."""
        self.run("down", "--volumes", "--timeout", "5", check=False)
        label = f"label=cloche.home={DataFiles((self.home / 'node').resolve()).home}"
        for kind, all_of_them in (("container", ("--all",)), ("volume", ())):
            found = _docker(kind, "ls", *all_of_them, "--quiet", "--filter", label).split()
            if found:
                _docker(kind, "rm", "--force", *found)

    def containers(self) -> dict[str, str]:
        """By service, which of them is the running one."""
        return {each.service: each.id for each in self._seen() if each.service not in ONCE}

    def token(self) -> str:
        return self.run("exec", "-T", "gateway", "cloche", "token", "--role", "admin", "--name", "tester").strip()

    def client(self, token: str) -> httpx.Client:
        headers = {"authorization": f"Bearer {token}"}
        return httpx.Client(base_url=f"http://127.0.0.1:{self._port}", headers=headers, timeout=200)

    def config(self) -> dict[str, Any]:
        """As the program reads it, with every default filled in."""
        found: dict[str, Any] = yaml.safe_load(self.run("config"))
        return found

    def run(self, *arguments: str, check: bool = True) -> str:
        done = subprocess.run(
            [*self._program, "--file", str(ROOT / "compose.yaml"), *arguments],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=COMMAND_S,
            check=False,
        )
        assert not check or done.returncode == 0, (
            f"{arguments}: {done.stdout[-2000:]}{done.stderr[-4000:]}{self._said()}"
        )
        return done.stdout

    def _said(self) -> str:
        logs = [*self._program, "--file", str(ROOT / "compose.yaml"), "logs", "--no-color", "--tail", "20"]
        return subprocess.run(
            logs, env=self._environment, capture_output=True, text=True, timeout=COMMAND_S, check=False
        ).stdout[-6000:]

    def _until_healthy(self, waiting: set[str]) -> None:
        """The engine tells of each change, but forgets it soon, for it tells of each check, too: so it is asked."""
        for _ in range(HEALTHY_S):
            seen = {each.service: each.status for each in self._seen()}
            waiting = {service for service in waiting if "(healthy)" not in seen.get(service, "")}
            if not waiting:
                return
            time.sleep(1)
        pytest.fail(f"not well in time: {sorted(waiting)}{self._said()}")

    def _seen(self) -> list[Seen]:
        mine = f"label=com.docker.compose.project={self._environment['COMPOSE_PROJECT_NAME']}"
        columns = '{{.Label "com.docker.compose.service"}}\t{{.ID}}\t{{.Status}}'
        listed = _docker("ps", "--all", "--no-trunc", "--filter", mine, "--format", columns)
        return [Seen(*line.split("\t")) for line in listed.splitlines()]


def _docker(*argv: str) -> str:
    done = subprocess.run(["docker", *argv], capture_output=True, text=True, timeout=COMMAND_S, check=True)
    return done.stdout
