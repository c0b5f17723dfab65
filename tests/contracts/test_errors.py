import re
from typing import NamedTuple

import pytest

from contracts import codec, errors
from contracts.errors import BY_CODE, ClocheError, Failure, from_failure

DESIGNED_CODES = {
    "SANDBOX_NOT_FOUND",
    "SANDBOX_INVALID_STATE",
    "SANDBOX_CREATION_FAILED",
    "SANDBOX_START_FAILED",
    "SANDBOX_STOP_FAILED",
    "SANDBOX_REMOVAL_FAILED",
    "SANDBOX_EXEC_FAILED",
    "SANDBOX_TIMEOUT",
    "SANDBOX_FILE_NOT_FOUND",
    "SANDBOX_FILE_TOO_LARGE",
    "SANDBOX_PATH_DENIED",
    "SANDBOX_WRITE_FAILED",
    "SANDBOX_EDIT_NO_MATCH",
    "SANDBOX_EDIT_MANY_MATCHES",
    "SANDBOX_COPY_FAILED",
    "SANDBOX_STATS_FAILED",
    "SANDBOX_RESOURCE_LIMIT_EXCEEDED",
    "AGENT_FAILED",
    "AGENT_RUNTIME_MISSING",
    "NODE_LOST",
    "NODE_DRAINED",
    "NODE_NAME_TAKEN",
    "CONTEXT_MISSING",
    "CONFLICT",
    "UNAVAILABLE",
    "INVALID",
    "UNAUTHENTICATED",
    "FORBIDDEN",
    "QUOTA_EXCEEDED",
    "TOO_MANY_REQUESTS",
    "NOT_FOUND",
    "METHOD_NOT_ALLOWED",
    "NOT_ACCEPTABLE",
    "PRECONDITION_FAILED",
    "TOO_LARGE",
    "UNSUPPORTED_MEDIA_TYPE",
    "RANGE_NOT_SATISFIABLE",
}
DRAWN_LINE = re.compile(
    r"^    (?P<lead>[│├└─ ]*)(?P<name>[A-Z]\w+)(?:\s+(?P<code>[A-Z_]+)\s+(?P<http>\d+)(?P<retry>\s+yes)?)?\s*$"
)


class Drawn(NamedTuple):
    parent: str | None
    code: str | None
    http_status: int | None
    retryable: bool


def _drawn() -> dict[str, Drawn]:
    found: dict[str, Drawn] = {}
    above: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        match = DRAWN_LINE.match(line.replace("code                             HTTP  retryable", ""))
        if match is None:
            continue
        depth = len(match["lead"]) // 4
        above = [*above[:depth], match["name"]]
        status = int(match["http"]) if match["http"] else None
        parent = above[depth - 1] if depth else None
        found[match["name"]] = Drawn(parent, match["code"], status, match["retry"] is not None)
    return found


def _real(kind: type[ClocheError], parent: str | None = None) -> dict[str, Drawn]:
    leaf = "code" in vars(kind) and kind is not ClocheError
    drawn = Drawn(parent, kind.code, kind.http_status, kind.retryable) if leaf else Drawn(parent, None, None, False)
    found = {kind.__name__: drawn}
    for child in kind.__subclasses__():
        if child.__module__ == errors.__name__:
            found.update(_real(child, kind.__name__))
    return found


def test_the_drawn_tree_is_the_tree_of_classes() -> None:
    assert _drawn() == _real(ClocheError)


def test_the_codes_are_those_of_the_design() -> None:
    assert set(BY_CODE) == DESIGNED_CODES


@pytest.mark.parametrize("code", sorted(DESIGNED_CODES))
def test_an_error_comes_back_from_its_failure_over_the_wire(code: str) -> None:
    raised = BY_CODE[code]("it went wrong", path="/a", size="3")
    crossed = codec.decode(codec.encode(raised.failure()), Failure)
    caught = from_failure(crossed)
    assert type(caught) is type(raised)
    assert caught.failure() == raised.failure()
    assert (caught.message, caught.details) == ("it went wrong", {"path": "/a", "size": "3"})
    assert str(caught) == "it went wrong"


def test_a_code_from_a_newer_version_becomes_a_plain_error() -> None:
    caught = from_failure(Failure(code="GREENHOUSE_ON_FIRE", message="hot", details={"where": "left"}))
    assert type(caught) is ClocheError
    assert (caught.message, caught.details) == ("hot", {"where": "left"})


def test_details_may_have_any_name() -> None:
    details = {"message": "inner", "self": "me", "code": "7"}
    assert from_failure(Failure(code="INVALID", message="outer", details=details)).details == details


def test_a_failure_says_nothing_about_classes() -> None:
    assert codec.encode(errors.Conflict("taken").failure()) == (
        b'{"code":"CONFLICT","message":"taken","retryable":true,"details":{}}'
    )
