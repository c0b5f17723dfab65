"""None of a long list of tricks gets past the proxy, and each that came to it is on the record."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
import pytest_asyncio

from infra.client import Cloche, Sandbox
from tests.egress import attempts
from tests.egress.attempts import ATTEMPTS, DIRECT
from tests.egress.clients import PATIENCE_S
from tests.egress.settings import write_settings
from tests.egress.traps import Traps, traps
from tests.services.node import node_in

pytestmark = [pytest.mark.timeout(300), pytest.mark.asyncio(loop_scope="module")]

INSIDE = Path(__file__).parent / "try_inside.py"
ACCESS_DENIED = b"\x15\x03\x03\x00\x02\x02\x31"
"""As TLS says it."""
LISTEN = """
import signal, socket
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
signal.pause()
"""


class Stage(NamedTuple):
    sandbox: Sandbox
    traps: Traps
    outcomes: dict[str, str]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    data = tmp_path_factory.mktemp("node")
    async with traps(tmp_path_factory.mktemp("traps")) as laid:
        write_settings(data, _addresses(laid), head_timeout_s=1)
        async with node_in(data) as (node, cloche):
            sandbox = await cloche.create({"network": _network(laid)})
            other = await _service_of_another(cloche)
            outcomes = await _try_all(sandbox, laid, node.server.port, other)
            yield Stage(sandbox, laid, outcomes)


def _addresses(laid: Traps) -> dict[str, str | tuple[str, ...]]:
    return {
        attempts.ALLOWED: laid.server,
        attempts.DENIED: laid.trap,
        attempts.TWO_FACED: (laid.server, "127.0.0.1"),
        attempts.LOOPED: "127.0.0.1",
        attempts.PRIVATE: "10.0.0.7",
        attempts.METADATA: "169.254.169.254",
        attempts.MAPPED: "::ffff:127.0.0.1",
    }


def _network(laid: Traps) -> dict[str, object]:
    """Names that lead where nobody may go are allowed, so that it is their addresses that are refused."""
    names = (attempts.TWO_FACED, attempts.LOOPED, attempts.PRIVATE, attempts.METADATA, attempts.MAPPED)
    return {"allowed_hosts": [attempts.ALLOWED, *names], "allowed_ports": [laid.port]}


async def _service_of_another(cloche: Cloche) -> int:
    other = await cloche.create({})
    listening = await other.start(["python3", "-c", LISTEN])
    async for chunk in listening.output():
        return int(chunk.data)
    raise AssertionError("the other sandbox does not listen")


async def _try_all(sandbox: Sandbox, laid: Traps, nats: int, other: int) -> dict[str, str]:
    given = {
        "port": laid.port,
        "nats": nats,
        "other": other,
        "trap": laid.trap,
        "server": laid.server,
        "abstract": laid.abstract,
        "file": str(laid.file),
        "attempts": [
            [each.name, base64.b64encode(each.said).decode(), base64.b64encode(each.then).decode()] for each in ATTEMPTS
        ],
        "direct": DIRECT,
    }
    await sandbox.files.write("given.json", json.dumps(given).encode())
    await sandbox.files.write("try_inside.py", INSIDE.read_bytes())
    result = await sandbox.run(["python3", "try_inside.py", "given.json"])
    assert result.exit_code == 0, result.stderr.decode()
    return dict(json.loads(line) for line in result.stdout.splitlines())


async def test_every_attempt_was_made(stage: Stage) -> None:
    names = [*(each.name for each in ATTEMPTS), *DIRECT]
    assert len(names) == len(set(names)) >= 50
    assert set(stage.outcomes) == set(names)


@pytest.mark.parametrize("attempt", ATTEMPTS, ids=lambda attempt: attempt.name)
async def test_the_proxy_refuses(stage: Stage, attempt: attempts.Attempt) -> None:
    outcome = stage.outcomes[attempt.name]
    assert "no more came" not in outcome, "it was left hanging"
    if attempt.said[:1] in (b"\x04", b"\x05"):
        assert not outcome.startswith("b'\\x05\\x00"), outcome
    elif outcome not in ("in the tunnel b''", "b''", "cut off", f"in the tunnel {ACCESS_DENIED!r}"):
        assert outcome.removeprefix("in the tunnel ")[2:].startswith(("HTTP/1.1 4", "HTTP/1.1 5")), outcome


@pytest.mark.parametrize("name", list(DIRECT))
async def test_there_is_no_other_way(stage: Stage, name: str) -> None:
    assert stage.outcomes[name].startswith("nowhere: "), stage.outcomes[name]


async def test_nothing_reached_a_trap_and_nothing_was_smuggled(stage: Stage) -> None:
    assert stage.traps.caught == []
    said = b"".join(stage.traps.heard)
    for sign in (b"/smuggled", b"/fronted", b"denied.test"):
        assert sign not in said


@pytest.mark.parametrize("elsewhere", [attempts.DENIED, attempts.LOOPED, "2130706433", "169.254.169.254"])
async def test_a_redirection_is_a_request_like_any_other(stage: Stage, elsewhere: str) -> None:
    port = stage.traps.port
    address = f"http://{attempts.ALLOWED}:{port}/to/{elsewhere}:{port}"
    script = f"import urllib.request; urllib.request.urlopen('{address}')"
    assert b"HTTP Error 403" in (await stage.sandbox.run(["python3", "-c", script])).stderr
    assert stage.traps.caught == []


async def test_what_is_allowed_passes_so_that_a_proxy_that_refused_everything_would_show(stage: Stage) -> None:
    address = f"{attempts.ALLOWED}:{stage.traps.port}"
    script = f"import urllib.request; print(urllib.request.urlopen('http://{address}/').read().decode())"
    result = await stage.sandbox.run(["python3", "-c", script])
    assert result.stdout == b"fine\n", result.stderr.decode()


async def test_each_that_came_to_the_proxy_is_on_the_record(stage: Stage) -> None:
    untold = len(ATTEMPTS)
    # A storm of the same is told by its number, some time after the first of it.
    async with asyncio.timeout(PATIENCE_S):
        async for event in stage.sandbox.events(types=["network.denied"], follow=True):
            denied = msgspec.json.decode(event.head.data)
            assert denied["reason"]
            untold -= denied["count"]
            if untold <= 0:
                return
