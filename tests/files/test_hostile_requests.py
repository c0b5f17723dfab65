"""Whatever is asked is answered with a reason, and leaves the service as it was."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from contracts import subjects
from infra.client import Cloche, Sandbox
from tests.services.node import Node, node_in

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[Node, Cloche, Sandbox]]:
    async with node_in(tmp_path_factory.mktemp("node")) as (node, cloche):
        yield node, cloche, await cloche.create(id="sb")


BAD: tuple[tuple[str, bytes, str], ...] = (
    ("read", b"", "INVALID"),
    ("read", b"{", "INVALID"),
    ("read", b"[]", "INVALID"),
    ("read", b"null", "INVALID"),
    ("read", b"\xff\xfe", "INVALID"),
    ("read", b'{"path": 7}', "INVALID"),
    ("read", b'{"path": ""}', "INVALID"),
    ("read", b'{"path": "a\\u0000b"}', "INVALID"),
    ("read", b'{"path": "\\ud800"}', "INVALID"),
    ("read", b'{"path": "a", "path_bytes": "%%%"}', "INVALID"),
    ("read", b'{"path": "a", "path_bytes": ""}', "INVALID"),
    ("read", b'{"path": "a", "path_bytes": "Li4vLi4vZXRjL3Bhc3N3ZA=="}', "SANDBOX_PATH_DENIED"),
    ("read", b'{"path": "a", "unknown": 1}', "INVALID"),
    ("read", b'{"path": "a", "limit": -1}', "INVALID"),
    ("read", b'{"path": "a", "offset": 99999999999999999999999}', "INVALID"),
    ("read", b'{"path": "a", "max_bytes": 1000000000}', "INVALID"),
    ("read", b'{"path": "a", "asked_by": "a b"}', "INVALID"),
    ("write", b'{"path": "a"}', "INVALID"),
    ("write", b'{"path": "a", "content": "%", "encoding": "base64"}', "INVALID"),
    ("write", b'{"path": "a", "content": "x", "mode": 4095}', "INVALID"),
    ("move", b'{"path": "a", "to": "b", "to_bytes": "Li4vYg=="}', "SANDBOX_PATH_DENIED"),
    ("move", b'{"path": "a", "to": "b", "to_bytes": "YQBi"}', "INVALID"),
    ("edit", b'{"path": "a", "old": "", "new": "x"}', "INVALID"),
    ("grep", b'{"pattern": "("}', "INVALID"),
    ("grep", b'{"pattern": "(?P<a"}', "INVALID"),
    ("grep", b'{"pattern": "a", "files": "[z-a]"}', "INVALID"),
    ("list", b'{"after": "%%%"}', "INVALID"),
    ("glob", b'{"pattern": "../*"}', "INVALID"),
    ("upload", b'{"path": "a", "transfer": "../../x"}', "INVALID"),
    ("upload", b'{"path": "../a", "transfer": "t1"}', "SANDBOX_PATH_DENIED"),
    ("upload_pieces", b'{"transfer": "none", "number": 0, "pieces": []}', "INVALID"),
    ("upload_end", b'{"transfer": "none"}', "INVALID"),
    ("download", b'{"path": "missing", "transfer": "t2"}', "SANDBOX_FILE_NOT_FOUND"),
    ("download_pieces", b'{"transfer": "none", "wanted": [{"path": "a"}]}', "INVALID"),
    ("chmod", b'{"path": "a"}', "INVALID"),
)


@pytest.mark.parametrize(("verb", "payload", "code"), BAD)
async def test_a_bad_request_is_answered_with_its_code(
    running: tuple[Node, Cloche, Sandbox], verb: str, payload: bytes, code: str
) -> None:
    node, cloche, _ = running
    reply = await cloche.bus.request(subjects.rpc("files", "local", "sb", verb), payload, timeout=20)
    answer: dict[str, Any] = json.loads(reply.data)
    assert answer["failure"]["code"] == code, answer
    assert str(node.data) not in answer["failure"]["message"]


async def test_the_service_is_as_it_was(running: tuple[Node, Cloche, Sandbox]) -> None:
    node, _, sandbox = running
    await sandbox.files.write("still", "here")
    assert await sandbox.files.read_bytes("still") == b"here"
    assert not list((node.data / "staging").iterdir())
    assert not (node.data / "transfers").is_dir() or not list((node.data / "transfers").iterdir())
    assert not [line for line in node.services["executor"].said if "Traceback" in line]
