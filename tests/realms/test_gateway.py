"""One gateway for a log that is divided: whoever names a sandbox need not know where it is."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator

import httpx
import pytest
import pytest_asyncio
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from contracts.partitions import partition_of
from services.cli.gateway_note import GatewayNote, find_gateway
from tests.cli.shell import Shell
from tests.realms.divided import COUNT, divided_in, named

WAIT = {"wait": 60}


@pytest.fixture(scope="module")
def cloche(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    with divided_in(tmp_path_factory.mktemp("gateway") / "data") as shell:
        yield shell


@pytest.fixture
def note(cloche: Shell) -> GatewayNote:
    found = find_gateway(cloche.data)
    assert found is not None
    return found


@pytest_asyncio.fixture
async def http(note: GatewayNote) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"authorization": f"Bearer {note.token}"}
    async with httpx.AsyncClient(base_url=f"{note.address}/api/v1/sandboxes", headers=headers, timeout=90) as client:
        yield client


async def test_sandboxes_of_all_partitions_are_made_used_and_listed(http: httpx.AsyncClient) -> None:
    names = [named(number, "web") for number in range(COUNT)]
    for name in names:
        made = await http.post("/", json={"id": name}, params=WAIT)
        assert made.status_code == 201, made.text
        ran = await http.post(f"/{name}/commands", json={"shell": f"echo {name} > mark; cat mark"}, params=WAIT)
        assert ran.json()["stdout"] == f"{name}\n", ran.text
        told = (await http.get(f"/{name}/events", params={"type": "command.completed"})).json()
        assert len(told["events"]) == 1
        assert (await http.get(f"/{name}/state")).json()["state"]["sandbox"] == name
    listed = (await http.get("/", params={"limit": 2})).json()
    assert [each["sandbox"] for each in listed["sandboxes"]] == sorted(names)[:2]
    assert (await http.get(f"/{named(1, 'nobody')}")).status_code == 404


async def test_a_key_makes_one_sandbox_and_a_fork_is_beside_its_origin(http: httpx.AsyncClient) -> None:
    key = {"idempotency-key": "once"}
    made = [(await http.post("/", json={}, params=WAIT, headers=key)).json()["sandbox"] for _ in range(2)]
    assert made[0] == made[1]
    # Its files are on record then.
    assert (await http.post(f"/{made[0]}/snapshot", json={}, params=WAIT)).status_code == 200
    forked = (await http.post(f"/{made[0]}/fork", json={}, params=WAIT)).json()["sandbox"]
    assert partition_of(forked, COUNT) == partition_of(made[0], COUNT)
    elsewhere = named((partition_of(made[0], COUNT) + 1) % COUNT, "elsewhere")
    refused = await http.post(f"/{made[0]}/fork", json={"id": elsewhere}, params=WAIT)
    assert (refused.status_code, "another partition" in refused.text) == (400, True)


async def test_what_happens_in_every_partition_is_heard_on_one_socket(
    http: httpx.AsyncClient, note: GatewayNote
) -> None:
    address = note.address.replace("http", "ws", 1)
    headers = {"authorization": f"Bearer {note.token}"}
    names = {named(number, "heard") for number in range(COUNT)}
    async with connect(f"{address}/ws/events?types=sandbox", additional_headers=headers) as socket:
        assert json.loads(await socket.recv())["type"] == "connected"
        for name in names:
            await http.post("/", json={"id": name}, params=WAIT)
        heard: set[str] = set()
        async with asyncio.timeout(60):
            while heard < names:
                frame = json.loads(await socket.recv())
                if frame["type"] == "event":
                    heard.add(frame["sandbox_id"])
    with pytest.raises(InvalidStatus):
        async with connect(f"{address}/ws/events?from=1", additional_headers=headers):
            pass
    name = next(iter(names))
    async with connect(f"{address}/ws/sandboxes/{name}?from=1", additional_headers=headers) as socket:
        assert json.loads(await socket.recv())["sandbox_id"] == name
        first = json.loads(await socket.recv())
        assert first["sandbox_id"] == name


async def test_quotas_are_those_of_all_partitions_each_project_once_however_they_are_paged(
    http: httpx.AsyncClient, note: GatewayNote
) -> None:
    for number in range(COUNT):
        for project in ("everywhere", f"only-{number}"):
            spec = {"project_id": project, "network": {"mode": "none"}}
            made = await http.post("/", json={"id": named(number, project), "spec": spec}, params=WAIT)
            assert made.status_code == 201, made.text
    quotas = f"{note.address}/api/v1/quotas"
    whole = (await http.get(quotas)).json()
    used = {(line["kind"], line["name"]): line["used"]["sandboxes"] for line in whole["quotas"]}
    assert used["project", "everywhere"] == COUNT
    assert [used["project", f"only-{number}"] for number in range(COUNT)] == [1] * COUNT
    paged, after = [], None
    while True:
        page = (await http.get(quotas, params={"limit": 1} | ({"after": after} if after else {}))).json()
        paged += page["quotas"]
        if not page["more"]:
            break
        after = f"{paged[-1]['kind']}:{paged[-1]['name']}"
    assert paged == whole["quotas"]
