"""What every route may answer besides what it is there for."""

from collections import defaultdict

from contracts import errors
from contracts.errors import ClocheError
from contracts.http.problems import MEDIA_TYPE
from contracts.schema import Document

PROBLEM = {"$ref": "#/components/schemas/Problem"}
ALWAYS: tuple[type[ClocheError], ...] = (
    errors.Invalid,
    errors.Unauthenticated,
    errors.Forbidden,
    errors.TooManyRequests,
    errors.Unavailable,
)
OF_SANDBOXES: tuple[type[ClocheError], ...] = (errors.SandboxNotFound, errors.NotFound, errors.SandboxFileNotFound)
CHANGING: tuple[type[ClocheError], ...] = (errors.SandboxInvalidState, errors.Conflict, errors.QuotaExceeded)
WITH_BODY: tuple[type[ClocheError], ...] = (errors.TooLarge, errors.UnsupportedMediaType)
METHODS = frozenset({"get", "put", "post", "delete", "patch"})


def with_errors(paths: Document) -> None:
    """Adds to every operation the errors that it can give, each with its codes; any other is a problem, too."""
    for path, operations in paths.items():
        for method, operation in operations.items():
            if method in METHODS:
                operation["responses"].get("204", {}).pop("content", None)
                _add(operation["responses"], _of(path, method, operation))


def _of(path: str, method: str, operation: Document) -> list[type[ClocheError]]:
    if not path.startswith("/api/"):
        return [errors.Unavailable]
    found = list(ALWAYS)
    found += OF_SANDBOXES if "{" in path else ()
    found += CHANGING if method != "get" else ()
    found += WITH_BODY if "requestBody" in operation else ()
    return found


def _add(responses: Document, kinds: list[type[ClocheError]]) -> None:
    by_status: dict[int, list[str]] = defaultdict(list)
    for kind in kinds:
        by_status[kind.http_status].append(kind.code)
    for status, codes in by_status.items():
        # Litestar's own 400 describes an error of its own shape.
        if status == errors.Invalid.http_status or str(status) not in responses:
            responses[str(status)] = _problem(" or ".join(f"`{code}`" for code in codes))
    responses["default"] = _problem("Any other error: its `code` says which.")


def _problem(description: str) -> Document:
    return {"description": description, "content": {MEDIA_TYPE: {"schema": PROBLEM}}}
