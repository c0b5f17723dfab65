"""Sandboxes over HTTP, with a real node behind."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import pytest_asyncio

from contracts.access import Role, Scope
from tests.gateway.rig import Gateway, gateway_in

pytestmark = pytest.mark.asyncio(loop_scope="module")

SANDBOXES = "/api/v1/sandboxes"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Gateway]:
    async with gateway_in(tmp_path_factory.mktemp("gateway")) as found:
        yield found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(gateway: Gateway) -> AsyncIterator[httpx.AsyncClient]:
    async with gateway.client() as found:
        yield found


async def made(client: httpx.AsyncClient, name: str, **spec: object) -> None:
    answer = await client.post(f"{SANDBOXES}?wait=60", json={"id": name, "spec": spec})
    assert answer.status_code == 201, answer.text


async def listed(client: httpx.AsyncClient, **query: str | int) -> list[str]:
    """Over all pages."""
    found: list[str] = []
    while True:
        page = (await client.get(SANDBOXES, params=query)).json()
        found += [each["sandbox"] for each in page["sandboxes"]]
        if page["next"] is None:
            return found
        query["after"] = page["next"]


async def test_a_sandbox_is_made_once_however_often_it_is_asked_for_with_one_key(client: httpx.AsyncClient) -> None:
    asked = {"json": {"spec": {"labels": {"team": "keys"}}}, "headers": {"idempotency-key": "k-1"}}
    made_once = await client.post(f"{SANDBOXES}?wait=60", **asked)  # type: ignore[arg-type]
    assert made_once.status_code == 201, made_once.text
    assert made_once.headers["location"] == f"{SANDBOXES}/{made_once.json()['sandbox']}"
    again = await client.post(f"{SANDBOXES}?wait=60", **asked)  # type: ignore[arg-type]
    assert (again.status_code, again.json()["sandbox"]) == (201, made_once.json()["sandbox"])
    assert await listed(client, label="team=keys") == [made_once.json()["sandbox"]]


async def test_without_waiting_the_order_is_accepted_and_the_log_tells_the_rest(client: httpx.AsyncClient) -> None:
    asked = {"json": {"id": "later"}, "headers": {"idempotency-key": "k-2"}}
    accepted = await client.post(SANDBOXES, **asked)  # type: ignore[arg-type]
    assert (accepted.status_code, accepted.json()["sandbox"]) == (202, "later")
    assert (await client.post(f"{SANDBOXES}?wait=60", **asked)).status_code == 201  # type: ignore[arg-type]
    events = (await client.get(f"{SANDBOXES}/later")).json()["events"]
    assert events[0]["event"]["correlationid"] == accepted.json()["command"]


async def test_an_id_that_is_taken_is_refused(client: httpx.AsyncClient) -> None:
    await made(client, "taken")
    refused = await client.post(SANDBOXES, json={"id": "taken"})
    assert (refused.status_code, refused.json()["code"]) == (409, "SANDBOX_INVALID_STATE")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"spec": {"resources": {"cpus": "2"}}}, "resources.cpus"),
        ({"spec": {"nonsense": 1}}, "nonsense"),
        ({"id": "with.dots"}, "id"),
        ({"unknown": True}, "unknown"),
        ([], "object"),
    ],
)
async def test_what_cannot_be_meant_is_refused_and_named(client: httpx.AsyncClient, body: object, field: str) -> None:
    refused = await client.post(SANDBOXES, json=body)
    assert refused.status_code == 400
    assert refused.headers["content-type"] == "application/problem+json"
    assert refused.json()["code"] == "INVALID"
    assert field in refused.json()["detail"]


async def test_a_body_that_is_no_json_is_refused(client: httpx.AsyncClient) -> None:
    form = await client.post(SANDBOXES, data={"id": "form"})
    assert (form.status_code, form.json()["code"]) == (415, "UNSUPPORTED_MEDIA_TYPE")
    broken = await client.post(SANDBOXES, content=b"{", headers={"content-type": "application/json"})
    assert broken.status_code == 400


async def test_a_body_is_as_large_as_an_order_can_be_and_no_larger(client: httpx.AsyncClient) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(5):
            yield b" " * (1 << 20)

    for body in (b" " * (5 << 20), pieces()):
        refused = await client.post(SANDBOXES, content=body, headers={"content-type": "application/json"})
        assert (refused.status_code, refused.json()["code"]) == (413, "TOO_LARGE")
        assert refused.headers["content-type"] == "application/problem+json"
    taken = await client.post(SANDBOXES, content=b" " * (3 << 20), headers={"content-type": "application/json"})
    assert (taken.status_code, taken.json()["code"]) == (400, "INVALID")


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=many", "status=asleep", "label=noequals", "limit=1001", "label=a%3D1&label=a%3D2"]
)
async def test_a_query_out_of_its_bounds_is_refused(client: httpx.AsyncClient, query: str) -> None:
    refused = await client.get(f"{SANDBOXES}?{query}")
    assert (refused.status_code, refused.json()["code"]) == (400, "INVALID")
    assert query.partition("=")[0] in refused.json()["detail"]


async def test_an_id_that_cannot_be_one_is_refused_in_words(client: httpx.AsyncClient) -> None:
    refused = await client.get(f"{SANDBOXES}/with.dots")
    assert (refused.status_code, refused.json()["detail"]) == (
        400,
        "'with.dots' is not a sandbox id: letters, digits, '-' and '_', 64 at most",
    )


async def test_a_list_is_filtered_and_paged(client: httpx.AsyncClient) -> None:
    for name, task in (("page-a", "one"), ("page-b", "two"), ("page-c", "one")):
        await made(client, name, labels={"list": "yes"}, task_id=task, agent_id="robot", project_id="demo")
    assert await listed(client, label="list=yes", limit=1) == ["page-a", "page-b", "page-c"]
    assert await listed(client, label="list=yes", task_id="one") == ["page-a", "page-c"]
    assert await listed(client, agent_id="robot", project_id="demo", status="running", limit=2) == [
        "page-a",
        "page-b",
        "page-c",
    ]
    assert await listed(client, label="list=yes", status="paused") == []


async def test_somebody_sees_only_their_scope_also_when_it_hides_whole_pages(gateway: Gateway) -> None:
    async with gateway.client() as everybody:
        for name, team in (("scope-a", "x"), ("scope-b", "y"), ("scope-c", "x"), ("scope-d", "y")):
            await made(everybody, name, labels={"scoped": team}, project_id=f"p-{team}")
    scopes = (
        Scope(labels={"scoped": "y"}),
        Scope(sandboxes=("scope-b", "scope-d")),
        Scope(projects=("p-y",)),
        Scope(projects=("p-y", "p-z")),
        Scope(projects=("p-y",), sandboxes=("scope-a", "scope-b", "scope-d")),
    )
    for scope in scopes:
        async with gateway.client(gateway.token(Role.VIEWER, scope)) as theirs:
            assert await listed(theirs, limit=1) == ["scope-b", "scope-d"]
            assert await listed(theirs, label="scoped=x") == []
            hidden = await theirs.get(f"{SANDBOXES}/scope-a")
            unknown = await theirs.get(f"{SANDBOXES}/scope-z")
            assert (hidden.status_code, hidden.json()["code"]) == (404, "SANDBOX_NOT_FOUND")
            assert hidden.json()["detail"].replace("scope-a", "") == unknown.json()["detail"].replace("scope-z", "")


async def test_what_somebody_makes_is_in_their_scope(gateway: Gateway) -> None:
    async with gateway.client(gateway.token(scope=Scope(labels={"tenant": "t"}))) as theirs:
        await made(theirs, "tenant-a", labels={"own": "label"})
        state = (await theirs.get(f"{SANDBOXES}/tenant-a")).json()["sandbox"]
        assert state["spec"]["labels"] == {"own": "label", "tenant": "t"}
        other = await theirs.post(SANDBOXES, json={"spec": {"labels": {"tenant": "u"}}})
        assert (other.status_code, other.json()["code"]) == (403, "FORBIDDEN")
        forked = await theirs.post(f"{SANDBOXES}/tenant-a/fork?wait=60", json={"spec": {"labels": {"a": "b"}}})
        assert forked.status_code == 201, forked.text
        assert forked.json()["spec"]["labels"] == {"own": "label", "a": "b", "tenant": "t"}
    async with gateway.client(gateway.token(scope=Scope(sandboxes=("mine",)))) as theirs:
        assert (await theirs.post(SANDBOXES, json={"id": "not-mine"})).status_code == 403
        await made(theirs, "mine")


async def test_what_somebody_makes_counts_for_a_project_of_their_token_and_for_no_other(gateway: Gateway) -> None:
    async with gateway.client(gateway.token(scope=Scope(projects=("red",)))) as theirs:
        await made(theirs, "red-a")
        state = (await theirs.get(f"{SANDBOXES}/red-a")).json()["sandbox"]
        assert state["spec"]["project_id"] == "red"
        for path in (SANDBOXES, f"{SANDBOXES}/red-a/fork"):
            other = await theirs.post(path, json={"spec": {"project_id": "blue"}})
            assert (other.status_code, other.json()["code"]) == (403, "FORBIDDEN"), path
            assert "project_id" in other.json()["detail"]
        forked = await theirs.post(f"{SANDBOXES}/red-a/fork?wait=60", json={"id": "red-b"})
        assert forked.json()["spec"]["project_id"] == "red"
        shown = (await theirs.get("/api/v1/quotas")).json()["quotas"]
        assert [(each["kind"], each["name"], each["used"]["sandboxes"]) for each in shown] == [
            ("principal", "tester", shown[0]["used"]["sandboxes"]), ("project", "red", 2)
        ]  # fmt: skip
    async with gateway.client(gateway.token(scope=Scope(projects=("red", "blue")))) as theirs:
        assert (await theirs.post(SANDBOXES, json={})).status_code == 403, "which one has to be said"
        await made(theirs, "blue-a", project_id="blue")
        kept = await theirs.post(f"{SANDBOXES}/red-a/fork?wait=60", json={"id": "red-c"})
        assert kept.json()["spec"]["project_id"] == "red", "that of its origin"


@pytest.mark.parametrize(
    ("field", "spec"),
    [
        ("workspace.source", {"workspace": {"source": {"kind": "directory", "path": "/etc"}}}),
        ("workspace.source", {"workspace": {"source": {"kind": "git", "repository": "/srv/repository"}}}),
        ("docker.mounts", {"docker": {"mounts": [{"source": "/", "target": "/host", "read_only": False}]}}),
        ("docker.runtime", {"docker": {"runtime": "runc"}}),
        ("environment.inherit_all", {"environment": {"inherit_all": True}}),
        ("environment.passthrough", {"environment": {"passthrough": ["ANTHROPIC_API_KEY"]}}),
        ("secrets", {"secrets": [{"name": "anthropic", "host": "collector.example"}]}),
    ],
)
async def test_what_is_the_nodes_own_is_for_admins_of_everything(
    gateway: Gateway, field: str, spec: dict[str, object]
) -> None:
    tenant = Scope(labels={"tenant": "t"})
    async with gateway.client() as everybody:
        origin = {"id": "reach", "spec": {"labels": {"tenant": "t"}}}
        await everybody.post(f"{SANDBOXES}?wait=60", json=origin, headers={"idempotency-key": "reach"})
    for token in (gateway.token(), gateway.token(Role.ADMIN, tenant), gateway.token(Role.OPERATOR, tenant)):
        async with gateway.client(token) as theirs:
            for path in (SANDBOXES, f"{SANDBOXES}/reach/fork"):
                refused = await theirs.post(path, json={"spec": spec})
                assert (refused.status_code, refused.json()["code"]) == (403, "FORBIDDEN")
                assert field in refused.json()["detail"]
    async with gateway.client(gateway.token(Role.ADMIN)) as ours:
        assert (await ours.post(SANDBOXES, json={"spec": spec})).status_code == 202


async def test_the_runtime_that_the_node_gives_is_not_taken_away_by_naming_none(tmp_path: Path) -> None:
    (tmp_path / "cloche.toml").write_text("[sandbox.docker]\nruntime = 'runsc'\n")
    async with gateway_in(tmp_path) as gateway, gateway.client() as theirs:
        await made(theirs, "walled", docker={"runtime": None, "image": "some:thing"})
        docker = (await theirs.get(f"{SANDBOXES}/walled")).json()["sandbox"]["spec"]["docker"]
        assert (docker["runtime"], docker["image"]) == ("runsc", "some:thing")
        same = await theirs.post(SANDBOXES, json={"spec": {"docker": {"runtime": "runsc"}}})
        assert same.status_code == 202, "what is given to everybody may be named"


async def test_nobody_forks_what_they_may_not_see(gateway: Gateway) -> None:
    async with gateway.client() as everybody:
        await made(everybody, "secretive", labels={"tenant": "other"})
        at = (await everybody.put(f"{SANDBOXES}/secretive/files/x", content=b"x")).json()["sequence"]
    origin = {"kind": "fork", "sandbox": "secretive", "sequence": at}
    async with gateway.client(gateway.token(scope=Scope(labels={"tenant": "t"}))) as theirs:
        refused = await theirs.post(SANDBOXES, json={"spec": {"workspace": {"source": origin}}})
        assert (refused.status_code, refused.json()["code"]) == (404, "SANDBOX_NOT_FOUND")
    async with gateway.client() as everybody:
        await made(everybody, "seen", workspace={"source": origin})


async def test_a_sandbox_is_paused_resumed_stopped_started_kept_forked_and_removed(client: httpx.AsyncClient) -> None:
    await made(client, "life")
    here = f"{SANDBOXES}/life"
    for verb, status in (("pause", "paused"), ("resume", "running"), ("stop", "stopped"), ("start", "running")):
        moved = await client.post(f"{here}/{verb}?wait=60")
        assert (moved.status_code, moved.json()["status"]) == (200, status)
    await client.put(f"{here}/files/kept.txt", content=b"before")
    kept = await client.post(f"{here}/snapshot?wait=60", json={"label": "first"})
    assert (kept.status_code, kept.json()["event"]["data"]["label"]) == (200, "first")
    await client.put(f"{here}/files/kept.txt", content=b"after")
    at = kept.json()["event"]["data"]["sequence"]
    for name, moment in (("life-fork", at), ("life-again", str(at))):
        forked = await client.post(f"{here}/fork?wait=60", json={"id": name, "at": moment})
        assert (forked.status_code, forked.json()["sandbox"]) == (201, name)
        assert (await client.get(f"{SANDBOXES}/{name}/files/kept.txt")).content == b"before"
    # Without a moment it is this very one: nothing that was written before is missing.
    for number in range(5):
        ran = await client.post(f"{here}/commands?wait=60", json={"shell": f"echo {number} > now.txt"})
        assert ran.status_code == 200
        forked = await client.post(f"{here}/fork?wait=60", json={"id": f"life-now-{number}"})
        assert (forked.status_code, forked.json()["sandbox"]) == (201, f"life-now-{number}")
        now = await client.get(f"{SANDBOXES}/life-now-{number}/files/now.txt")
        assert now.content == f"{number}\n".encode()
    gone = await client.delete(f"{here}?wait=60&reason=enough")
    assert (gone.status_code, gone.json()["status"]) == (200, "removed")
    detail = (await client.get(here)).json()
    assert detail["sandbox"]["status"] == "removed"
    assert detail["events"][-1]["event"]["data"] == {"reason": "enough", "by": "gateway/tester"}
    refused = await client.post(f"{here}/start")
    assert (refused.status_code, refused.json()["code"]) == (409, "SANDBOX_INVALID_STATE")
    assert "life" in await listed(client, removed="true")
    assert "life" not in await listed(client)


async def test_a_detail_has_the_last_events_oldest_first_and_where_to_follow_from(client: httpx.AsyncClient) -> None:
    await made(client, "detail")
    await client.post(f"{SANDBOXES}/detail/commands?wait=60", json={"argv": ["true"]})
    detail = (await client.get(f"{SANDBOXES}/detail?events=3")).json()
    sequences = [each["sequence"] for each in detail["events"]]
    assert len(sequences) == 3
    assert sequences == sorted(sequences)
    assert sequences[-1] <= detail["head_sequence"]
    assert (await client.get(f"{SANDBOXES}/detail?events=0")).json()["events"] == []


async def test_a_detail_has_fewer_events_where_they_are_large(client: httpx.AsyncClient) -> None:
    await made(client, "large")
    printing = {"shell": "head -c 12000000 /dev/zero | tr '\\0' x"}
    await client.post(f"{SANDBOXES}/large/commands?wait=60", json=printing)
    answer = await client.get(f"{SANDBOXES}/large?events=200")
    assert 1 << 20 < len(answer.content) < 6 << 20
    page = (await client.get(f"{SANDBOXES}/large/events?limit=1")).json()
    assert answer.json()["events"][0]["sequence"] > page["events"][0]["sequence"]


async def test_a_method_that_is_not_there_says_which_are(client: httpx.AsyncClient) -> None:
    refused = await client.patch(f"{SANDBOXES}/nobody")
    assert (refused.status_code, refused.json()["code"]) == (405, "METHOD_NOT_ALLOWED")
    assert {"GET", "DELETE"} <= set(refused.headers["allow"].split(", "))
    nowhere = await client.get("/api/v1/nowhere")
    assert (nowhere.status_code, nowhere.json()["code"]) == (404, "NOT_FOUND")
