"""`docker compose up`, a demo through its gateway, an upgrade across a command, down and up, backup and restore."""

import os
import re
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests import images
from tests.compose.image import build, build_context, discard
from tests.compose.stack import Stack, compose_program, give_up

HERE = "/api/v1/sandboxes/demo"
LONG = "i=0; while [ ! -e over ]; do echo line $i; i=$((i+1)); usleep 20000; done; echo $i lines"


class Images:
    def __init__(self, context: Path) -> None:
        name = f"cloche-test/compose-{secrets.token_hex(4)}"
        self.first, self.second = f"{name}:1", f"{name}:2"
        self._context = context

    def build(self) -> None:
        build(self._context, self.first, "1")
        build(self._context, self.second, "2")


@pytest.fixture
def built(tmp_path: Path) -> Iterator[Images]:
    compose_program()
    if os.geteuid() != 0:
        give_up("what the services leave on the disk is root's, and we are not")
    made = Images(build_context(tmp_path / "context"))
    try:
        made.build()
        yield made
    finally:
        discard(made.first, made.second)


@pytest.fixture
def stack(built: Images, tmp_path: Path) -> Iterator[Stack]:
    made = Stack(tmp_path / "home", built.first)
    try:
        yield made
    finally:
        made.discard()


@pytest.mark.timeout(1200)
def test_a_command_goes_on_across_an_upgrade_and_all_of_it_is_there_after_down_and_up_and_after_a_restore(
    stack: Stack, built: Images
) -> None:
    stack.run("run", "--rm", "--no-deps", "--entrypoint", "python3", "cli", "-c", "import infra.observing.otlp")
    stack.up()
    token = stack.token()
    with stack.client(token) as client:
        _demo(client)
        running = _begin(client)
    before = stack.containers()

    stack.up(built.second)
    after = stack.containers()
    kept = {service for service, container in before.items() if after[service] == container}
    assert kept == {"keeper"}
    with stack.client(token) as client:
        assert client.get(running).json()["outcome"] is None
        _end(client, running)
        assert client.delete(f"{HERE}?wait=120").status_code == 200
        events = _events(client)
    stack.run("run", "--rm", "cli", "verify", "demo")

    file = stack.run("run", "--rm", "backup").splitlines()[-1].strip()
    assert file.startswith(f"{stack.home}/backups/"), "the path is the host's, too"
    stack.down()
    stack.up(only=("gateway", "replay"))
    with stack.client(token) as client:
        assert _events(client) == events

    stack.down("--volumes")
    stack.run("run", "--rm", "restore", file)
    stack.up(only=("gateway", "replay"))
    with stack.client(token) as client:
        assert _events(client) == events, "the log is back, and the key that the token was signed with"
    stack.run("run", "--rm", "cli", "verify", "demo")


def _demo(client: httpx.Client) -> None:
    """A sandbox, a command in it, its files, its way out, and the page that shows them."""
    made = client.post(
        "/api/v1/sandboxes?wait=120", json={"id": "demo", "spec": {"docker": {"image": images.busybox()}}}
    )
    assert (made.status_code, made.json()["isolation"]) == (201, "docker"), made.text
    assert client.put(f"{HERE}/files/given.txt", content=b"from outside\n").status_code == 201
    ran = _ran(client, "id -u; cat given.txt; echo inside > made.txt; wget -qO- http://example.com")
    assert (ran["stdout"], ran["exit_code"]) == ("1000\nfrom outside\n", 1)
    assert client.get(f"{HERE}/files/made.txt").content == b"inside\n"
    told = {event["type"] for event in _events(client)}
    assert told >= {"sandbox.created", "command.completed", "file.ready", "network.attached", "network.denied"}
    # The page itself, and not the words in its place where it could not be built.
    assert re.search(r'src="[^"]*/assets/[^"]+\.js"', client.get("/").text)


def _begin(client: httpx.Client) -> str:
    """A long command's address, once it has written something."""
    began = client.post(f"{HERE}/commands", json={"shell": LONG})
    place = f"{HERE}/commands/{began.json()['exec']}"
    while not client.get(f"{place}/output").content:
        _ran(client, "usleep 100000")
    return place


def _end(client: httpx.Client, running: str) -> None:
    """Of the long command: every byte that it wrote, and one end."""
    assert client.put(f"{HERE}/files/over", content=b"").status_code == 201
    while (ended := client.get(f"{running}?wait=60").json())["outcome"] is None:
        pass
    assert (ended["outcome"], ended["exit_code"]) == ("completed", 0)
    *lines, last = client.get(f"{running}/output").text.splitlines()
    assert lines == [f"line {number}" for number in range(len(lines))]
    assert last == f"{len(lines)} lines"
    its = [event["type"] for event in _events(client) if event["data"].get("exec") == ended["exec"]]
    assert [kind for kind in its if kind != "command.output"] == ["command.started", "command.completed"]


def _ran(client: httpx.Client, shell: str) -> dict[str, Any]:
    answer = client.post(f"{HERE}/commands?wait=120", json={"shell": shell})
    assert answer.status_code == 200, answer.text
    result: dict[str, Any] = answer.json()
    return result


def _events(client: httpx.Client) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    following = 1
    while True:
        page = client.get(f"{HERE}/events", params={"from": following, "limit": 1000}).json()
        if not page["events"]:
            return found
        found += [each["event"] for each in page["events"]]
        following = page["events"][-1]["sequence"] + 1
