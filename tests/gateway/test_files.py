"""Files of a sandbox over HTTP, with a real node behind."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
import pytest_asyncio

from infra.client import Sandbox
from tests.gateway.rig import Gateway, gateway_in

pytestmark = pytest.mark.asyncio(loop_scope="module")

HERE = "/api/v1/sandboxes/sb"
FILES = f"{HERE}/files"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Gateway]:
    async with gateway_in(tmp_path_factory.mktemp("gateway")) as found:
        await found.cloche.create(id="sb")
        yield found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox(gateway: Gateway) -> Sandbox:
    return await gateway.cloche.sandbox("sb")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(gateway: Gateway) -> AsyncIterator[httpx.AsyncClient]:
    async with gateway.client() as found:
        yield found


def etag(content: bytes) -> str:
    return f'"{hashlib.sha256(content).hexdigest()}"'


async def names(client: httpx.AsyncClient, **query: str | int) -> list[str]:
    """Over all pages, as of the moment of the first."""
    found: list[str] = []
    while True:
        page = (await client.get(FILES, params=query)).json()
        found += [each["path"] for each in page["entries"]]
        if page["next"] is None:
            return found
        query |= {"after": page["next"], "at": page["sequence"]}


async def test_what_is_written_is_there_at_once_under_the_name_of_its_hash(client: httpx.AsyncClient) -> None:
    written = await client.put(f"{FILES}/dir/a.txt", content=b"hello")
    assert (written.status_code, written.json()["path"], written.json()["size"]) == (201, "dir/a.txt", 5)
    assert written.headers["etag"] == etag(b"hello")
    read = await client.get(f"{FILES}/dir/a.txt")
    assert (read.status_code, read.content, read.headers["etag"]) == (200, b"hello", etag(b"hello"))
    again = await client.put(f"{FILES}/dir/a.txt", content=b"")
    assert (again.status_code, again.json()["created"]) == (200, False)
    assert (await client.get(f"{FILES}/dir/a.txt")).content == b""


async def test_what_a_command_wrote_is_there_too(client: httpx.AsyncClient, sandbox: Sandbox) -> None:
    await sandbox.run("echo made inside > inside.txt")
    assert (await client.get(f"{FILES}/inside.txt")).content == b"made inside\n"


async def test_looking_leaves_no_trace_in_the_log(client: httpx.AsyncClient) -> None:
    await client.put(f"{FILES}/seen.txt", content=b"x")
    head = (await client.get(f"{HERE}/events")).json()["head_sequence"]
    await client.get(FILES)
    await client.get(f"{FILES}/seen.txt")
    after = (await client.get(f"{HERE}/events?from={head + 1}&type=tool&type=file")).json()
    assert after["events"] == []


async def test_a_file_is_read_in_parts_and_not_again_while_it_is_the_same(client: httpx.AsyncClient) -> None:
    await client.put(f"{FILES}/parts", content=b"0123456789")
    part = await client.get(f"{FILES}/parts", headers={"range": "bytes=3-5"})
    assert (part.status_code, part.content, part.headers["content-range"]) == (206, b"345", "bytes 3-5/10")
    same = await client.get(f"{FILES}/parts", headers={"if-none-match": f'"x", {etag(b"0123456789")}'})
    assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", etag(b"0123456789"))
    other = await client.get(f"{FILES}/parts", headers={"if-none-match": '"x"'})
    assert other.status_code == 200
    behind = await client.get(f"{FILES}/parts", headers={"range": "bytes=10-"})
    assert (behind.status_code, behind.json()["code"]) == (416, "RANGE_NOT_SATISFIABLE")


async def test_a_part_of_another_content_is_never_taken_for_one_of_this(client: httpx.AsyncClient) -> None:
    await client.put(f"{FILES}/resumed", content=b"0123456789")
    for held, expected in ((etag(b"0123456789"), 206), (etag(b"before"), 200)):
        answer = await client.get(f"{FILES}/resumed", headers={"range": "bytes=5-", "if-range": held})
        assert answer.status_code == expected


async def test_what_did_not_come_whole_is_not_written(
    gateway: Gateway, client: httpx.AsyncClient, sandbox: Sandbox
) -> None:
    for name, size in (("torn-small", 1000), ("torn-large", 2_000_000)):
        _, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        head = f"PUT {FILES}/{name} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {size}\r\n"
        writer.write(f"{head}authorization: Bearer {gateway.token()}\r\n\r\n".encode() + b"x" * (size // 2))
        await writer.drain()
        writer.close()
        await writer.wait_closed()
    async for event in sandbox.events(types=["tool.returned"], follow=True):
        if b'"upload"' in event.raw and b"given up" in event.raw:
            break
    for name in ("torn-small", "torn-large"):
        assert (await client.get(f"{FILES}/{name}")).status_code == 404
    assert not any("failed" in line for line in gateway.service.said)


async def test_one_that_stops_in_the_middle_of_a_file_keeps_nobody_else_from_it(tmp_path: Path) -> None:
    async with gateway_in(tmp_path, CLOCHE_GATEWAY_SLOW_S="0.5") as gateway, gateway.client() as client:
        await gateway.cloche.create(id="sb")
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        head = f"PUT {FILES}/held HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\n"
        writer.write(f"{head}authorization: Bearer {gateway.token()}\r\n\r\nhalf".encode())
        assert b" 400 " in await reader.readline()
        written = await client.put(f"{FILES}/held", content=b"whole")
        assert (written.status_code, (await client.get(f"{FILES}/held")).content) == (201, b"whole")
        # Whoever does not send the rest is not kept either.
        await reader.read()
        writer.close()


@pytest.mark.parametrize("size", [1000, 2_000_000])
async def test_one_that_sends_slowly_keeps_nobody_from_the_file_and_overwrites_nothing_unseen(
    gateway: Gateway, client: httpx.AsyncClient, size: int
) -> None:
    place, content = f"{FILES}/slow-{size}", b"s" * size
    await client.put(place, content=b"before")
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    head = f"PUT {place} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {size}\r\nif-match: {etag(b'before')}\r\n"
    writer.write(f"{head}authorization: Bearer {gateway.token()}\r\n\r\n".encode() + content[:-1])
    await writer.drain()
    async with asyncio.timeout(10):
        assert (await client.put(place, content=b"meanwhile")).status_code == 200
    writer.write(content[-1:])
    assert b" 412 " in await reader.readline()
    writer.close()
    await writer.wait_closed()
    assert (await client.get(place)).content == b"meanwhile"


async def test_a_write_that_expects_another_content_changes_nothing(client: httpx.AsyncClient) -> None:
    await client.put(f"{FILES}/guarded", content=b"one")
    right = await client.put(f"{FILES}/guarded", content=b"two", headers={"if-match": etag(b"one")})
    assert right.status_code == 200
    for headers in ({"if-match": etag(b"one")}, {"if-none-match": "*"}):
        wrong = await client.put(f"{FILES}/guarded", content=b"three", headers=headers)
        assert (wrong.status_code, wrong.json()["code"]) == (412, "PRECONDITION_FAILED")
    absent = await client.put(f"{FILES}/absent", content=b"three", headers={"if-match": "*"})
    assert absent.status_code == 412
    kept = await client.delete(f"{FILES}/guarded", headers={"if-match": etag(b"one")})
    assert kept.status_code == 412
    assert (await client.get(f"{FILES}/guarded")).content == b"two"
    new = await client.put(f"{FILES}/new-only", content=b"first", headers={"if-none-match": "*"})
    assert new.status_code == 201


async def test_of_many_who_expect_the_same_content_one_writes(client: httpx.AsyncClient) -> None:
    await client.put(f"{FILES}/contested", content=b"start")
    answers = await asyncio.gather(
        *(
            client.put(f"{FILES}/contested", content=f"by {n}".encode(), headers={"if-match": etag(b"start")})
            for n in range(5)
        )
    )
    assert sorted(each.status_code for each in answers) == [200, 412, 412, 412, 412]


async def test_a_large_file_is_streamed_in_and_out(client: httpx.AsyncClient) -> None:
    content = b"".join(hashlib.sha256(str(n).encode()).digest() for n in range(150_000))
    written = await client.put(f"{FILES}/large?mode=750", content=content)
    assert (written.status_code, written.headers["etag"]) == (201, etag(content))
    assert (await client.get(f"{FILES}/large")).content == content
    part = await client.get(f"{FILES}/large", headers={"range": "bytes=2000000-2000099"})
    assert part.content == content[2_000_000:2_000_100]
    shorter = await client.put(f"{FILES}/large", content=content[:-5])
    assert (shorter.status_code, shorter.json()["created"]) == (200, False)
    entry = next(each for each in (await client.get(FILES)).json()["entries"] if each["path"] == "large")
    assert (entry["mode"], entry["size"]) == (0o750, len(content) - 5)


async def test_a_large_file_of_unknown_length_is_refused_and_a_small_one_is_not(client: httpx.AsyncClient) -> None:
    async def pieces(count: int) -> AsyncIterator[bytes]:
        for _ in range(count):
            yield b"x" * 100_000

    refused = await client.put(f"{FILES}/chunked-large", content=pieces(20))
    assert (refused.status_code, refused.json()["code"]) == (400, "INVALID")
    taken = await client.put(f"{FILES}/chunked-small", content=pieces(2))
    assert (taken.status_code, taken.json()["size"]) == (201, 200_000)


@pytest.mark.parametrize(
    "name", [b"with space", b"\xff\xfe", "ünïcode/ß".encode(), b"a?b#c%d", b"a\nb", b"..hidden", b"semi;colon&and=is"]
)
async def test_a_name_may_be_any_bytes(client: httpx.AsyncClient, name: bytes) -> None:
    place = f"{FILES}/names/{quote(name)}"
    assert (await client.put(place, content=name)).status_code == 201
    read = await client.get(place)
    assert (read.status_code, read.content) == (200, name)
    assert "\n" not in read.headers["content-disposition"]
    assert (await client.delete(place)).status_code == 200
    assert (await client.get(place)).status_code == 404


@pytest.mark.parametrize("path", ["..%2f..%2fetc%2fpasswd", "a/%2e%2e/%2e%2e/x", "x%00y"])
async def test_nothing_outside_of_the_workspace_is_reached(client: httpx.AsyncClient, path: str) -> None:
    url = httpx.URL(str(client.base_url)).copy_with(raw_path=f"{FILES}/{path}".encode())
    for method in ("GET", "PUT", "DELETE"):
        answer = await client.request(method, url, content=b"x" if method == "PUT" else None)
        assert answer.status_code in (400, 403, 404), answer.text
        assert answer.headers["content-type"] == "application/problem+json"


async def test_a_symbolic_link_out_of_the_workspace_is_not_followed(
    client: httpx.AsyncClient, sandbox: Sandbox
) -> None:
    await sandbox.run("ln -s /etc/passwd leak")
    answer = await client.get(f"{FILES}/leak")
    assert answer.status_code in (400, 403, 404)
    assert b"root:" not in answer.content


async def test_a_file_is_never_a_page_of_our_origin(client: httpx.AsyncClient) -> None:
    await client.put(f"{FILES}/page.html", content=b"<script>alert(1)</script>")
    for headers in ({}, {"range": "bytes=0-3"}):
        answer = await client.get(f"{FILES}/page.html", headers=headers)
        assert answer.headers["content-type"] == "application/octet-stream"
        assert answer.headers["content-disposition"].startswith('attachment; filename="page.html"')
        assert answer.headers["content-security-policy"] == "sandbox; default-src 'none'"
        assert answer.headers["x-content-type-options"] == "nosniff"


async def test_files_are_listed_page_by_page_at_any_moment(client: httpx.AsyncClient, sandbox: Sandbox) -> None:
    await sandbox.run("mkdir -p tree/deep; for n in 1 2 3 4 5; do echo $n > tree/$n; done; echo x > tree/deep/x")
    then = (await sandbox.flush()).sequence
    await sandbox.run("rm tree/1; echo changed > tree/2")
    assert await names(client, path="tree", limit=2) == ["tree/2", "tree/3", "tree/4", "tree/5", "tree/deep"]
    assert await names(client, path="tree", recursive="true", at=then) == [
        *(f"tree/{n}" for n in (1, 2, 3, 4, 5)),
        "tree/deep",
        "tree/deep/x",
    ]
    assert (await client.get(f"{FILES}/tree/2?at={then}")).content == b"2\n"
    assert (await client.get(f"{FILES}/tree/2")).content == b"changed\n"
    assert (await client.get(f"{FILES}/tree/1")).status_code == 404
    at_time = (await client.get(f"{FILES}/tree/1?at=2000-01-01T00:00:00Z")).json()
    assert at_time["code"] == "INVALID"


async def test_the_files_of_a_removed_sandbox_can_be_read_and_not_written(
    gateway: Gateway, client: httpx.AsyncClient
) -> None:
    gone = await gateway.cloche.create(id="gone")
    await gone.run("echo left > left.txt")
    await gone.remove()
    place = "/api/v1/sandboxes/gone/files"
    assert [each["path"] for each in (await client.get(place)).json()["entries"]] == ["left.txt"]
    assert (await client.get(f"{place}/left.txt")).content == b"left\n"
    refused = await client.put(f"{place}/left.txt", content=b"x")
    assert (refused.status_code, refused.json()["code"]) == (409, "SANDBOX_INVALID_STATE")


async def test_a_directory_is_removed_only_with_all_that_is_in_it_if_that_is_meant(client: httpx.AsyncClient) -> None:
    await client.put(f"{FILES}/full/file", content=b"x")
    assert (await client.delete(f"{FILES}/full")).status_code in (400, 409)
    gone = await client.delete(f"{FILES}/full?recursive=true")
    assert (gone.status_code, gone.json()["entries"]) == (200, 2)
    assert "full" not in await names(client)


async def test_a_file_whose_content_is_not_kept_is_read_where_it_lies(
    client: httpx.AsyncClient, sandbox: Sandbox
) -> None:
    await sandbox.run("echo swap > .notes.swp")
    read = await client.get(f"{FILES}/.notes.swp")
    assert (read.status_code, read.content) == (200, b"swap\n")
    part = await client.get(f"{FILES}/.notes.swp", headers={"range": "bytes=1-2"})
    assert (part.status_code, part.content) == (206, b"wa")


async def test_a_part_that_is_not_there_leaves_nobody_reading(client: httpx.AsyncClient, sandbox: Sandbox) -> None:
    await sandbox.run("echo unseen >> .clocheignore; echo content > unseen")
    start = (await client.get(HERE)).json()["head_sequence"] + 1
    refused = await client.get(f"{FILES}/unseen", headers={"range": "bytes=99-"})
    assert (refused.status_code, refused.headers["content-range"]) == (416, "bytes */8")
    page = (await client.get(f"{HERE}/events", params={"from": start, "type": "tool"})).json()
    assert [each["event"]["type"] for each in page["events"]] == ["tool.invoked", "tool.returned"]
