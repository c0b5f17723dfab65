"""A secret is used from inside a sandbox, and is nowhere to be found in it, nor in the log."""

import json
import secrets
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import pytest
import pytest_asyncio

from contracts.errors import Invalid
from contracts.proof import Proof
from contracts.streams import COMMANDS_STREAM
from infra.bus.reader import read
from infra.client import Cloche, Sandbox
from infra.secrets.spellings import spellings
from infra.secrets.store import SecretStore
from tests.conformance.tiers import require
from tests.egress.authority import Authority
from tests.egress.search_inside import TURNED
from tests.egress.settings import write_settings
from tests.egress.upstream import Upstream, upstream
from tests.images import debian
from tests.services.node import Node, node_in

HOST = "api.secret.test"
SEARCH = Path(__file__).with_name("search_inside.py")
LISTED = "sk-listed-" + secrets.token_urlsafe(24)
FROM_ENVIRONMENT = "sk-environ-" + secrets.token_urlsafe(24)


class Stage(NamedTuple):
    node: Node
    cloche: Cloche
    upstream: Upstream
    store: SecretStore


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    place = tmp_path_factory.mktemp("secrets")
    authority = Authority(place / "authority")
    files = place / "files"
    files.mkdir()
    (files / "hello").write_text("hello")
    with upstream(files, authority.server_context(HOST)) as server:
        data = place / "node"
        write_settings(data, {HOST: server.address}, authority.certificate)
        store = SecretStore(data / "vault", {})
        store.put("listed", LISTED.encode(), [HOST])
        async with node_in(data, CLOCHE_SECRET_FROM_ENV=FROM_ENVIRONMENT) as (node, cloche):
            yield Stage(node, cloche, server, store)


def spec_of(tier: str, server: Upstream, *names: str) -> dict[str, object]:
    chosen = [{"name": name, "host": HOST, "port": server.port, "env": f"{name.upper()}_URL"} for name in names]
    image = {"docker": {"image": debian()}} if tier == "docker" else {}
    return {"isolation": tier, "network": {"allowed_hosts": []}, "secrets": chosen, **image}


async def get(sandbox: Sandbox, url: str) -> tuple[int, str]:
    """Status and body, as Python inside sees them."""
    script = (
        "import sys, urllib.request, urllib.error\n"
        "try: answer = urllib.request.urlopen(sys.argv[1], timeout=20)\n"
        "except urllib.error.HTTPError as error: answer = error\n"
        "print(answer.status); print(answer.headers); print(answer.read().decode())"
    )
    result = await sandbox.run(["python3", "-c", script, url])
    assert result.exit_code == 0, result
    status, _, body = result.stdout.decode().partition("\n")
    return int(status), body


def turned(text: str) -> str:
    return text.encode().translate(TURNED).hex()


@pytest.mark.parametrize("tier", ["local", "docker"])
@pytest.mark.asyncio(loop_scope="module")
async def test_a_secret_is_used_upstream_and_found_nowhere_inside_nor_in_the_log(stage: Stage, tier: str) -> None:
    require(tier)
    stage.upstream.requests.clear()
    canary = "canary-" + secrets.token_urlsafe(24)
    sandbox = await stage.cloche.create(spec_of(tier, stage.upstream, "listed", "from_env"))
    routes = (await sandbox.run(["sh", "-c", "echo $LISTED_URL $FROM_ENV_URL"])).stdout.decode().split()
    assert routes == ["http://127.0.0.1:3129/listed", "http://127.0.0.1:3129/from_env"]
    await sandbox.files.write("search.py", SEARCH.read_text())
    wanted = {"listed": turned(LISTED), "from_env": turned(FROM_ENVIRONMENT), "canary": turned(canary)}
    urls = [f"{route}{path}" for route in routes for path in ("/hello", "/mirror")]
    result = await sandbox.run(["python3", "search.py", json.dumps(wanted), *urls])
    assert result.exit_code == 0, result
    found = json.loads(result.stdout)
    assert found.pop("used")
    assert found.pop("canary") == ["environ", "file", "memory"], "the search finds what is there"
    assert found == {"listed": [], "from_env": []}
    used = [(request.path, request.authorization) for request in stage.upstream.requests]
    assert used == [
        *((path, f"Bearer {LISTED}") for path in ("/hello", "/mirror")),
        *((path, f"Bearer {FROM_ENVIRONMENT}") for path in ("/hello", "/mirror")),
    ]
    await in_the_log(stage, LISTED, FROM_ENVIRONMENT)


async def in_the_log(stage: Stage, *values: str) -> None:
    """Fails for any spelling of a value in any message of the log, or in any file of the node but the store's own."""
    needles = [each.found for each in spellings(values)]
    seen = 0
    async with await stage.node.server.connect("admin") as admin:
        async for entry in read(admin, ["cloche.log.>"], 1, follow=False):
            assert not any(needle in entry.data for needle in needles), entry.subject
            seen += 1
    assert seen > 10
    for path in stage.node.data.rglob("*"):
        # An order that somebody filled with a secret lies in the queue as it was sent.
        if path.is_file() and stage.store.directory not in path.parents and COMMANDS_STREAM not in path.parts:
            assert not any(needle in path.read_bytes() for needle in needles), path
    for service in stage.node.services.values():
        assert not any(needle.decode() in line for line in service.said for needle in needles), service.name


@pytest.mark.asyncio(loop_scope="module")
async def test_a_server_that_sends_the_secret_back_is_masked_on_the_way_in(stage: Stage) -> None:
    sandbox = await stage.cloche.create(spec_of("local", stage.upstream, "listed"))
    status, body = await get(sandbox, "http://127.0.0.1:3129/listed/mirror")
    assert status == 200
    assert "Bearer " + "*" * len(LISTED) in body
    assert LISTED not in body
    assert f"Host: {HOST}" in body


@pytest.mark.asyncio(loop_scope="module")
async def test_a_secret_that_is_missing_is_refused_with_the_remedy_and_works_once_it_is_there(stage: Stage) -> None:
    sandbox = await stage.cloche.create(spec_of("local", stage.upstream, "later"))
    created = [each.head async for each in sandbox.events(types=["sandbox.created"])]
    assert "cloche secret set later" in json.loads(bytes(created[0].data))["notes"][0]
    status, body = await get(sandbox, "http://127.0.0.1:3129/later/hello")
    assert status == 502
    assert "cloche secret set later" in body
    async for event in sandbox.events(types=["network.denied"], follow=True):
        denied = json.loads(bytes(event.head.data))
        assert (denied["host"], denied["via"]) == (HOST, "route")
        assert "cloche secret set later" in denied["reason"]
        break
    stage.store.put("later", b"key-that-came-Late-1")
    assert (await get(sandbox, "http://127.0.0.1:3129/later/hello"))[0] == 200
    stage.store.put("later", b"key-that-was-Rotated-2")
    assert (await get(sandbox, "http://127.0.0.1:3129/later/hello"))[0] == 200
    assert [request.authorization for request in stage.upstream.requests[-2:]] == [
        "Bearer key-that-came-Late-1",
        "Bearer key-that-was-Rotated-2",
    ]


@pytest.mark.asyncio(loop_scope="module")
async def test_a_secret_bound_to_another_host_is_not_sent(stage: Stage) -> None:
    stage.store.put("bound", b"only-for-Another-1", ["other.test"])
    sandbox = await stage.cloche.create(spec_of("local", stage.upstream, "bound"))
    before = len(stage.upstream.requests)
    status, body = await get(sandbox, "http://127.0.0.1:3129/bound/hello")
    assert status == 502
    assert "cloche secret ls" in body
    assert "other.test" not in body
    assert len(stage.upstream.requests) == before


@pytest.mark.asyncio(loop_scope="module")
async def test_a_secret_does_not_come_in_by_the_environment(stage: Stage) -> None:
    spec = spec_of("local", stage.upstream, "listed")
    spec["environment"] = {"set": {"KEY": LISTED, "OK": "1"}, "passthrough": ["CLOCHE_SECRET_FROM_ENV"]}
    sandbox = await stage.cloche.create(spec)
    inside = (await sandbox.run(["env"])).stdout.decode()
    assert "OK=1\n" in inside
    assert "KEY=" not in inside
    assert FROM_ENVIRONMENT not in inside
    created = [each.head async for each in sandbox.events(types=["sandbox.created"])]
    assert json.loads(bytes(created[0].data))["blocked"] == ["CLOCHE_SECRET_FROM_ENV", "KEY"]
    with pytest.raises(Invalid, match="TOKEN: a secret of this node"):
        await sandbox.run(["true"], env={"TOKEN": f"Bearer {LISTED}"})
    await in_the_log(stage, LISTED, FROM_ENVIRONMENT)


@pytest.mark.asyncio(loop_scope="module")
async def test_a_secret_that_is_printed_whole_or_in_pieces_is_masked_and_the_record_stays_whole(stage: Stage) -> None:
    sandbox = await stage.cloche.create(spec_of("local", stage.upstream, "listed"))
    printed = await sandbox.run(["echo", "key:", LISTED])
    assert printed.stdout == b"key: " + b"*" * len(LISTED) + b"\n"
    half = len(LISTED) // 2
    execution = await sandbox.start(["cat"], stdin=True)
    await execution.write(f"key: {LISTED[:half]}".encode())
    async for chunk in execution.output():
        if chunk.data.endswith(b"*" * half):
            break
    await execution.write(f"{LISTED[half:]} end".encode())
    await execution.close_stdin()
    result = await execution.wait()
    assert result.stdout == b"key: " + b"*" * len(LISTED) + b" end"
    proof = Proof()
    async for event in sandbox.events():
        proof.feed(event.sequence, event.head)
    assert proof.summary().findings == ()
    await in_the_log(stage, LISTED)
