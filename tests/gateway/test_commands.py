"""Commands over HTTP, with a real node behind."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio

from tests.gateway.rig import Gateway, gateway_in

pytestmark = pytest.mark.asyncio(loop_scope="module")

HERE = "/api/v1/sandboxes/sb"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Gateway]:
    async with gateway_in(tmp_path_factory.mktemp("gateway")) as found:
        await found.cloche.create(id="sb")
        yield found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(gateway: Gateway) -> AsyncIterator[httpx.AsyncClient]:
    async with gateway.client() as found:
        yield found


async def ran(client: httpx.AsyncClient, **order: object) -> dict[str, object]:
    answer = await client.post(f"{HERE}/commands?wait=60", json=order)
    assert answer.status_code == 200, answer.text
    result: dict[str, object] = answer.json()
    return result


async def test_a_command_that_ends_in_time_is_a_result_with_what_it_wrote(client: httpx.AsyncClient) -> None:
    result = await ran(client, shell="echo out; echo err >&2; printf '\\377' ; exit 3")
    assert (result["outcome"], result["exit_code"]) == ("completed", 3)
    assert (result["stdout"], result["stdout_encoding"]) == ("b3V0Cv8=", "base64")
    assert (result["stderr"], result["stderr_encoding"], result["truncated"]) == ("err\n", "utf-8", False)
    assert result["totals"] == {"stdin": 0, "stdout": 5, "stderr": 4, "pty": 0}


async def test_a_program_that_is_not_there_is_a_result(client: httpx.AsyncClient) -> None:
    result = await ran(client, argv=["no-such-program"])
    assert (result["outcome"], result["started_at"]) == ("rejected", None)
    assert result["failure"]["code"] == "SANDBOX_EXEC_FAILED"  # type: ignore[index]


async def test_without_waiting_the_answer_is_where_to_look(client: httpx.AsyncClient) -> None:
    accepted = await client.post(f"{HERE}/commands", json={"argv": ["echo", "later"]})
    assert accepted.status_code == 202
    place = accepted.headers["location"]
    assert place == f"{HERE}/commands/{accepted.json()['exec']}"
    detail = await client.get(f"{place}?wait=60")
    assert (detail.json()["outcome"], detail.json()["argv"]) == ("completed", ["echo", "later"])
    assert (await client.get(f"{place}/output")).content == b"later\n"


async def test_the_same_key_is_the_same_command(client: httpx.AsyncClient) -> None:
    asked = {"json": {"shell": "echo once >> once.txt; cat once.txt"}, "headers": {"idempotency-key": "run-1"}}
    results = [await client.post(f"{HERE}/commands?wait=60", **asked) for _ in range(2)]  # type: ignore[arg-type]
    assert [each.json()["stdout"] for each in results] == ["once\n", "once\n"]
    assert len({each.json()["exec"] for each in results}) == 1


async def test_a_command_is_typed_into_and_ends_when_its_input_does(client: httpx.AsyncClient) -> None:
    accepted = (await client.post(f"{HERE}/commands", json={"argv": ["cat"], "stdin": True})).json()
    place = f"{HERE}/commands/{accepted['exec']}"
    for body in ({"data": "one\n"}, {"data": "dHdvCg==", "encoding": "base64"}, {"eof": True}):
        assert (await client.post(f"{place}/input", json=body)).status_code == 202
    assert (await client.get(f"{place}?wait=60")).json()["exit_code"] == 0
    assert (await client.get(f"{place}/output")).content == b"one\ntwo\n"
    assert (await client.get(f"{place}/output?stream=stdin")).content == b"one\ntwo\n"


async def test_a_command_is_cancelled(client: httpx.AsyncClient) -> None:
    accepted = (await client.post(f"{HERE}/commands", json={"argv": ["sleep", "1000"]})).json()
    place = f"{HERE}/commands/{accepted['exec']}"
    assert (await client.post(f"{place}/signal", json={"cancel": True, "reason": "enough"})).status_code == 202
    detail = (await client.get(f"{place}?wait=60")).json()
    assert (detail["outcome"], detail["signal"]) == ("cancelled", 15)


async def test_a_terminal_is_resized(client: httpx.AsyncClient) -> None:
    order = {"shell": "read line; stty size", "stdin": True, "pty": {"rows": 10, "cols": 20}}
    accepted = (await client.post(f"{HERE}/commands", json=order)).json()
    place = f"{HERE}/commands/{accepted['exec']}"
    await client.post(f"{place}/resize", json={"rows": 33, "cols": 44})
    await client.post(f"{place}/input", json={"data": "go\n"})
    assert (await client.get(f"{place}?wait=60")).json()["outcome"] == "completed"
    assert (await client.get(f"{place}/output")).content.endswith(b"33 44\r\n")


async def test_output_is_had_by_the_offsets_of_its_bytes_from_each_stream(client: httpx.AsyncClient) -> None:
    script = "for n in $(seq 1 3000); do echo line $n; [ $((n % 500)) = 0 ] && echo error $n >&2; done; true"
    result = await ran(client, shell=script)
    place = f"{HERE}/commands/{result['exec']}/output"
    whole = "".join(f"line {n}\n" for n in range(1, 3001)).encode()
    errors = "".join(f"error {n}\n" for n in range(500, 3001, 500)).encode()
    everything = await client.get(place)
    assert (everything.content, everything.headers["content-length"]) == (whole, str(len(whole)))
    assert (await client.get(f"{place}?stream=stderr")).content == errors
    for start, end in ((0, 0), (1, 9), (20_000, 20_010), (len(whole) - 3, len(whole) + 100)):
        part = await client.get(place, headers={"range": f"bytes={start}-{end}"})
        assert (part.status_code, part.content) == (206, whole[start : end + 1])
        assert part.headers["content-range"] == f"bytes {start}-{min(end, len(whole) - 1)}/{len(whole)}"
    for query, expected in (
        ("offset=20000", whole[20_000:]),
        ("offset=20000&limit=7", whole[20_000:20_007]),
        ("limit=0", b""),
        (f"offset={len(whole)}", b""),
        (f"offset={len(whole) + 7}", b""),
    ):
        assert (await client.get(f"{place}?{query}")).content == expected, query
    of_that = await client.get(f"{place}?offset=100&limit=10", headers={"range": "bytes=1-2"})
    assert (of_that.content, of_that.headers["content-range"]) == (whole[101:103], "bytes 1-2/10")
    tail = await client.get(place, headers={"range": "bytes=-5"})
    assert tail.content == whole[-5:]
    behind = await client.get(place, headers={"range": f"bytes={len(whole)}-"})
    assert (behind.status_code, behind.headers["content-range"]) == (416, f"bytes */{len(whole)}")


async def test_output_is_never_a_page_of_our_origin(client: httpx.AsyncClient) -> None:
    result = await ran(client, shell="echo '<script>alert(1)</script>'")
    answer = await client.get(f"{HERE}/commands/{result['exec']}/output")
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"].startswith("attachment")
    assert answer.headers["content-security-policy"].startswith("sandbox")
    assert answer.headers["x-content-type-options"] == "nosniff"


async def test_output_that_is_more_than_one_answer_holds_is_cut_and_says_so(client: httpx.AsyncClient) -> None:
    result = await ran(client, shell="head -c 3000000 /dev/zero | tr '\\0' x")
    assert result["truncated"] is True
    assert len(str(result["stdout"])) == 1 << 20
    answer = await client.get(f"{HERE}/commands/{result['exec']}/output", headers={"range": "bytes=2999990-"})
    assert answer.content == b"x" * 10


async def test_what_a_running_command_has_written_is_there_already(client: httpx.AsyncClient) -> None:
    accepted = (await client.post(f"{HERE}/commands", json={"shell": "echo first; cat", "stdin": True})).json()
    place = f"{HERE}/commands/{accepted['exec']}"
    async with asyncio.timeout(60):
        while (await client.get(f"{HERE}/events?type=command.output&limit=1000")).text.count(accepted["exec"]) == 0:
            await asyncio.sleep(0.02)
    assert (await client.get(f"{place}/output")).content == b"first\n"
    assert (await client.get(place)).json()["outcome"] is None
    await client.post(f"{place}/input", json={"eof": True})


async def test_a_command_that_never_was_is_not_found(client: httpx.AsyncClient) -> None:
    for place in ("commands/nobody", "commands/nobody?wait=0.1", "commands/nobody/output"):
        answer = await client.get(f"{HERE}/{place}")
        assert (answer.status_code, answer.json()["code"]) == (404, "NOT_FOUND")


async def test_a_stopped_sandbox_is_an_error_and_no_result(gateway: Gateway, client: httpx.AsyncClient) -> None:
    stopped = await gateway.cloche.create(id="stopped")
    await stopped.stop()
    refused = await client.post("/api/v1/sandboxes/stopped/commands?wait=60", json={"argv": ["true"]})
    assert (refused.status_code, refused.json()["code"]) == (409, "SANDBOX_INVALID_STATE")


@pytest.mark.parametrize(
    "order", [{}, {"argv": ["true"], "shell": "true"}, {"argv": "true"}, {"shell": "x", "timeout_ms": "5"}]
)
async def test_an_order_that_cannot_be_meant_is_refused(client: httpx.AsyncClient, order: object) -> None:
    refused = await client.post(f"{HERE}/commands", json=order)
    assert (refused.status_code, refused.json()["code"]) == (400, "INVALID")
