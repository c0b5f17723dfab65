"""The description of the REST API: whole, current, and true of a real gateway."""

import asyncio
import json
import re
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
import schemathesis
from schemathesis import GenerationMode

from contracts.access import Role
from services.gateway.openapi import document
from tests.gateway.fuzzing import ENDLESS, MOVING, fuzz, operations
from tests.gateway.rig import Gateway, gateway_in

pytestmark = pytest.mark.asyncio(loop_scope="module")

KEPT = Path(__file__).parents[2] / "docs" / document.FILE
EXAMPLES = {GenerationMode.POSITIVE: 20, GenerationMode.NEGATIVE: 10}
DOCUMENT = document.document()
OPERATIONS = {
    operation.label: operation
    for operation in operations(DOCUMENT)
    if operation.definition.raw["operationId"] not in ENDLESS
}
REFUSED = MOVING | {"beginSession"}
"""What is made up is refused: of a sandbox that is removed by then, with tokens that nobody has made."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Gateway]:
    async with gateway_in(tmp_path_factory.mktemp("gateway")) as found:
        yield found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def known(gateway: Gateway) -> dict[str, str]:
    """What addresses can name."""
    sandbox = await gateway.cloche.create(id="sb")
    await gateway.cloche.create(id="victim")
    result = await sandbox.run("echo content > file; echo output")
    return {"sandbox_id": sandbox.id, "exec_id": result.exec, "file_path": "file", "victim": "victim"}


def every(node: Any, key: str) -> list[Any]:
    """The values of a key, wherever it is."""
    if isinstance(node, list):
        return [found for each in node for found in every(each, key)]
    if not isinstance(node, dict):
        return []
    return [*([node[key]] if key in node else []), *(found for each in node.values() for found in every(each, key))]


async def test_the_document_that_is_kept_is_current() -> None:
    assert KEPT.read_text() == document.text()


async def test_the_document_is_valid_and_every_reference_leads_somewhere() -> None:
    schemathesis.openapi.from_dict(DOCUMENT).validate()
    assert DOCUMENT["openapi"].startswith("3.1")
    for reference in set(every(DOCUMENT, "$ref")):
        assert reference.removeprefix("#/components/schemas/") in DOCUMENT["components"]["schemas"], reference


async def test_every_operation_says_what_it_is_called_what_it_does_and_how_it_fails() -> None:
    names = Counter(operation["operationId"] for path in DOCUMENT["paths"].values() for operation in path.values())
    assert set(names.values()) == {1}
    for path, methods in DOCUMENT["paths"].items():
        for operation in methods.values():
            assert operation["summary"], path
            assert re.fullmatch(r"[a-z]+[A-Za-z]*", operation["operationId"]), path
            for status, answer in operation["responses"].items():
                if status == "default" or status >= "4":
                    assert answer["content"]["application/problem+json"]["schema"]["$ref"].endswith("/Problem")


async def test_a_body_of_a_new_sandbox_is_a_specification_with_its_bounds() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    assert schemas["NewSandbox"]["properties"]["spec"]["$ref"] == "#/components/schemas/SandboxSpec"
    assert schemas["Resources"]["properties"]["memory_mb"]["maximum"] == 32_768


async def test_it_is_served_to_anybody(gateway: Gateway) -> None:
    async with httpx.AsyncClient(base_url=gateway.url) as nobody:
        served = await nobody.get("/api/openapi.json")
    assert served.status_code == 200
    assert served.json() == json.loads(KEPT.read_text())


@pytest.mark.parametrize("mode", EXAMPLES)
@pytest.mark.parametrize("label", OPERATIONS)
async def test_whatever_is_asked_the_answer_is_no_failure_and_as_it_is_described(
    gateway: Gateway, known: dict[str, str], label: str, mode: GenerationMode
) -> None:
    operation = OPERATIONS[label]
    if mode == GenerationMode.NEGATIVE and not {"parameters", "requestBody"} & operation.definition.raw.keys():
        # There is nothing that could be wrong.
        return
    token = gateway.token(Role.ADMIN, subject=re.sub(r"\W+", "-", f"fuzz{label}-{mode}"))
    answers = await asyncio.to_thread(
        fuzz, operation, mode, url=gateway.url, token=token, known=known, examples=EXAMPLES[mode]
    )
    assert answers
    if mode == GenerationMode.POSITIVE and operation.definition.raw["operationId"] not in REFUSED:
        assert set(answers) & {200, 202, 204, 206, 409}, answers
