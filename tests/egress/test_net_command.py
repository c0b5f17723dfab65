"""`cloche net`, and `--allow`: what a person sees of the network of a sandbox, and changes, from a shell."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from contracts.errors import Invalid
from contracts.spec import Network, NetworkMode, Preset, UnknownHost
from infra.client import Cloche
from services.cli.hosts import allowed, network_of
from services.cli.policy_change import Changes, changed
from tests.cli.shell import Said, Shell, up_in
from tests.egress.hello import hello
from tests.egress.settings import write_settings
from tests.services.node import settings_in

FETCH = """
import sys, urllib.request, urllib.error
try:
    print(urllib.request.urlopen(sys.argv[1], timeout=60).read().decode(), end="")
except urllib.error.HTTPError as error:
    print(error.code, error.read().decode(), end="")
"""


class Stage(NamedTuple):
    cloche: Shell
    port: int

    def fetch(self, sandbox: str, url: str) -> bytes:
        """What a program inside is answered."""
        return asyncio.run(self._fetch(sandbox, url))

    async def _fetch(self, sandbox: str, url: str) -> bytes:
        async with Cloche.connect(settings_in(self.cloche.data)) as client:
            result = await (await client.sandbox(sandbox)).run(["python3", "-c", FETCH, url])
        assert result.exit_code == 0, result.stderr
        return result.stdout


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    data: Path = tmp_path_factory.mktemp("node")
    with hello() as server:
        write_settings(data, dict.fromkeys(("good.test", "more.test", "asked.test"), server.address))
        with up_in(data, DOCKER_HOST="unix:///nobody/listens.sock") as cloche:
            yield Stage(cloche, server.port)


def lines(said: Said) -> list[dict[str, Any]]:
    assert said.code == 0, said.err
    return [json.loads(line) for line in said.out.splitlines()]


def told(stage: Stage, sandbox: str, kind: str, count: int) -> list[dict[str, Any]]:
    """Follows until there are so many."""
    found: list[dict[str, Any]] = []
    with stage.cloche.begun("net", sandbox, "-f", "--json") as following:
        assert following.stdout is not None
        for line in following.stdout:
            each = json.loads(line)
            found += [each["data"]] if each["type"] == f"network.{kind}" else []
            if len(found) == count:
                break
    return found


def test_the_policy_of_a_running_sandbox_is_changed_and_its_requests_are_shown(stage: Stage) -> None:
    cloche, port = stage
    assert cloche("create", "--id", "box", "--allow", "good.test", "--set", f"network.allowed_ports=[{port}]").code == 0
    assert stage.fetch("box", f"http://good.test:{port}/first?secret=1") == b"hello\n"
    refused = stage.fetch("box", f"http://more.test:{port}/second").decode()
    assert refused.startswith("403 ")
    assert f"more.test:{port} denied: the host is not allowed" in refused
    assert "cloche net box --allow more.test" in refused
    said = cloche("net", "box", "--allow", "MORE.test.,pip")
    assert said.out.decode().splitlines() == [
        "allowed: pip, good.test, more.test", f"ports:   {port}", "others:  denied",
    ]  # fmt: skip
    assert stage.fetch("box", f"http://more.test:{port}/third") == b"hello\n"
    assert cloche("net", "box", "--deny", "good.test,pip").code == 0
    assert stage.fetch("box", f"http://good.test:{port}/fourth").startswith(b"403 ")
    told(stage, "box", "denied", 2)
    table = cloche("net", "box").out.decode().splitlines()
    assert table[0].split() == ["TIME", "STATUS", "OUT", "IN", "TOOK", "REQUEST"]
    requests = [" ".join(line.split()[1:]) for line in table if ".test" in line]
    assert requests[0].startswith("200 ")
    assert requests[0].endswith(f"GET good.test:{port}/first")
    assert requests[1] == f"denied GET more.test:{port} the host is not allowed"
    everything = lines(cloche("net", "box", "--json"))
    allowed_paths = [each["data"]["path"] for each in everything if each["type"] == "network.allowed"]
    assert allowed_paths == ["/first", "/third"]
    assert cloche("rm", "box").code == 0
    assert len(lines(cloche("net", "box", "--json"))) == len(everything)


def test_what_waits_for_an_answer_stands_on_top_and_is_answered(stage: Stage) -> None:
    cloche, port = stage
    asking = ["--set", "network.unknown=ask", "--set", f"network.allowed_ports=[{port}]"]
    assert cloche("create", "--id", "asking", "--allow", "good.test", *asking).code == 0
    url = f"http://asked.test:{port}/"
    with cloche.begun("exec", "asking", "--", "python3", "-c", FETCH, url) as waiting:
        (asked,) = told(stage, "asking", "asked", 1)
        top = cloche("net", "asking").out.decode().splitlines()[0]
        assert f"GET asked.test:{port}" in top
        assert top.endswith(f"cloche net asking --approve {asked['approval']}")
        said = cloche("net", "asking", "--approve", asked["approval"], "--remember", "--reason", "for the test")
        assert (said.code, said.out) == (0, f"{asked['approval']} approved\n".encode())
        assert waiting.communicate(timeout=60)[0] == b"hello\n"
    assert told(stage, "asking", "approved", 1)[0]["reason"] == "for the test"
    again = cloche("net", "asking", "--approve", asked["approval"])
    assert (again.code, again.err) == (2, f"cloche: '{asked['approval']}' was approved already\n".encode())
    # What was approved for a host is taken back with it.
    assert cloche("net", "asking", "--deny", "asked.test", "--no-ask").code == 0
    assert stage.fetch("asking", url).startswith(b"403 ")


def test_run_reaches_what_it_may_and_no_more(stage: Stage) -> None:
    cloche, port = stage
    given = ["--allow", "good.test,npm", "--set", f"network.allowed_ports=[{port}]"]
    said = cloche("run", *given, "--", "python3", "-c", FETCH, f"http://good.test:{port}/")
    assert (said.code, said.out) == (0, b"hello\n")
    said = cloche("run", *given, "--", "python3", "-c", FETCH, f"http://more.test:{port}/")
    assert said.out.startswith(b"403 ")


def test_mistakes_are_said_in_one_line(stage: Stage) -> None:
    stage.cloche("create", "--id", "mistaken")
    for arguments, said in (
        (["mistaken", "--allow", "example.com:8443"], "a port is given by --port"),
        (["mistaken", "--mode", "full"], "make another sandbox"),
        (["mistaken", "--approve", "ask-nothing"], "never asked, or has expired"),
        (["mistaken", "--approve", "not an id"], "approval"),
        (["nobody"], "there is no sandbox 'nobody'"),
    ):
        found = stage.cloche("net", *arguments)
        assert found.code == 2
        assert found.err.decode().count("\n") == 1
        assert said in found.err.decode()


def test_hosts_and_presets_are_told_apart() -> None:
    assert allowed(["pip,Example.COM.", "*.a.org,npm,"]) == (("example.com", "*.a.org"), (Preset.PIP, Preset.NPM))
    assert network_of([""]) == {"mode": NetworkMode.RESTRICTED, "allowed_hosts": (), "presets": ()}


def changes(**given: Any) -> Changes:
    return Changes(**{**dict.fromkeys(Changes._fields), **given})


def test_a_change_names_only_what_is_to_be_another() -> None:
    policy = Network(allowed_hosts=("A.org", "*.b.org"), presets=(Preset.PIP,))
    assert changed(policy, changes()) == {}
    assert changed(policy, changes(allow=["a.org"])) == {}
    assert changed(policy, changes(allow=["c.org"], port=[22])) == {
        "allowed_hosts": ("A.org", "*.b.org", "c.org"),
        "allowed_ports": (443, 80, 22),
    }
    assert changed(policy, changes(deny=["a.org", "pip"], no_port=[80])) == {
        "allowed_hosts": ("*.b.org",),
        "presets": (),
        "allowed_ports": (443,),
    }
    assert changed(policy, changes(ask=True, mode=NetworkMode.NONE)) == {
        "mode": NetworkMode.NONE,
        "unknown": UnknownHost.ASK,
    }


@pytest.mark.parametrize(("host", "said"), [("x.b.org", r"\*\.b\.org allows it"), ("pypi.org", "preset pip")])
def test_nobody_is_left_in_the_belief_that_a_host_is_denied(host: str, said: str) -> None:
    with pytest.raises(Invalid, match=said):
        changed(Network(allowed_hosts=("*.b.org",), presets=(Preset.PIP,)), changes(deny=[host]))
