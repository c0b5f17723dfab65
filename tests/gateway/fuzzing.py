"""Requests that are made up from the description of the REST API, and what has to hold of every answer."""

import copy
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import requests
import schemathesis
from hypothesis import HealthCheck, Phase, assume, given, seed, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.config import SchemathesisConfig
from schemathesis.core import NotSet
from schemathesis.core.result import Ok
from schemathesis.generation.case import Case
from schemathesis.schemas import APIOperation
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
REFUSALS = [400, 401, 403, 404, 405, 406, 409, 413, 415, 422, 428, 429]
"""413 also: what is longer than its field may be can be longer than any body may be."""
CONFIG = SchemathesisConfig.from_dict({"checks": {"negative_data_rejection": {"expected-statuses": REFUSALS}}})
SEED = 9
PATIENCE_S = 60
LONGEST = 60_000
ONE_WAY: dict[str, Any] = {"argv": ["true"], "shell": None}
"""A schema cannot say that a command is either of both."""
MAKING = frozenset({"createSandbox", "forkSandbox"})
"""With the id of one that is there: what is asked for is read to its end, and then refused."""
ENDLESS = frozenset({"followEvents"})
MOVING = frozenset({"pauseSandbox", "resumeSandbox", "stopSandbox", "startSandbox", "removeSandbox"})


Operation = APIOperation[Any, Any, Any, Any]
Request = Case[Any]


def operations(document: dict[str, Any]) -> Iterator[Operation]:
    """Without a word about tokens: we bring one, and what is made up has none."""
    unsealed = copy.deepcopy(document)
    unsealed["components"].pop("securitySchemes")
    for methods in unsealed["paths"].values():
        for operation in methods.values():
            operation.pop("security", None)
    for found in schemathesis.openapi.from_dict(unsealed, config=CONFIG).get_all_operations():
        assert isinstance(found, Ok), found
        yield found.ok()


def fuzz(
    operation: Operation, mode: GenerationMode, *, url: str, token: str, known: dict[str, str], examples: int
) -> Counter[int]:
    """The same requests in every run. `known` names what there is. Returns which answers came how often.

    Raises what schemathesis finds wrong with an answer.
    """
    answers: Counter[int] = Counter()
    headers = {"authorization": f"Bearer {token}"}
    checks = CHECKS if mode == GenerationMode.POSITIVE else [*CHECKS, negative_data_rejection]

    @seed(SEED)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=_cases(operation, mode, known))
    def run(case: Request) -> None:
        # The web server itself refuses longer ones, before there is any request.
        assume(sum(_length(each) for each in (case.path, case.path_parameters, case.query, case.headers)) < LONGEST)
        with requests.Session() as session:
            answer = case.call_and_validate(url, session, headers, checks=checks, timeout=PATIENCE_S)
        answers[answer.status_code] += 1

    run()
    return answers


def _length(part: object) -> int:
    return len(quote(str(part)))


def _cases(operation: Operation, mode: GenerationMode, known: dict[str, str]) -> st.SearchStrategy[Request]:
    name = str(operation.definition.raw["operationId"])
    there = {key: value for key, value in known.items() if f"{{{key}}}" in operation.path}
    if name in MOVING:
        there["sandbox_id"] = known["victim"]
    of_what_is_there = operation.as_strategy(mode, path_parameters=there)
    # Every branch is as likely as the others.
    made_up = st.one_of(of_what_is_there, of_what_is_there, of_what_is_there, operation.as_strategy(mode))
    return made_up.map(_changed(name, known))


def _changed(name: str, known: dict[str, str]) -> Callable[[Request], Request]:
    """Nobody waits, and nothing is made that has to be cleaned up."""

    def changed(case: Request) -> Request:
        if "wait" in (case.query or {}):
            case.query["wait"] = 0
        if name == "runCommand" and isinstance(case.body, dict):
            case.body = {**case.body, **ONE_WAY}
        if name in MAKING and isinstance(case.body, dict | NotSet):
            body = case.body if isinstance(case.body, dict) else {}
            case.body = {**body, "id": known["sandbox_id"]}
            case.media_type = "application/json"
        return case

    return changed
