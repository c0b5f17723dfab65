"""Errors as answers: problem+json with the stable codes."""

import logging
from collections.abc import Mapping
from enum import Enum
from typing import Any

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException
from litestar.types import ExceptionHandlersMap
from litestar.typing import FieldDefinition

from contracts import errors
from contracts.errors import ClocheError, Invalid
from contracts.http import moments
from contracts.http.problems import MEDIA_TYPE, Problem
from contracts.ids import TOKEN_PATTERN
from infra.observing.about import About, about
from services.gateway import metrics

logger = logging.getLogger(__name__)

BY_STATUS: dict[int, type[ClocheError]] = {
    400: errors.Invalid,
    401: errors.Unauthenticated,
    403: errors.Forbidden,
    404: errors.NotFound,
    405: errors.MethodNotAllowed,
    406: errors.NotAcceptable,
    413: errors.TooLarge,
    415: errors.UnsupportedMediaType,
    429: errors.TooManyRequests,
}


PATTERNS = {
    TOKEN_PATTERN: "letters, digits, '-' and '_', 64 at most",
    moments.PATTERN: "neither a sequence of the log nor a time such as 2026-01-31T12:00:00Z",
}


def named_in(path: Mapping[str, object]) -> About:
    """What a request is about, by the parameters of its path."""
    return About(str(path.get("sandbox_id", "")), str(path.get("exec_id", "")))


def problem_of(error: ClocheError, path: str | None = None) -> Problem:
    return Problem(
        title=type(error).__name__,
        status=error.http_status,
        detail=error.message,
        code=error.code,
        retryable=error.retryable,
        details=error.details,
        instance=path,
    )


def answer(error: ClocheError, path: str | None = None, headers: Mapping[str, str] | None = None) -> Response[Problem]:
    metrics.refused(error)
    return Response(
        problem_of(error, path),
        status_code=error.http_status,
        media_type=MEDIA_TYPE,
        headers={**headers_of(error), **(headers or {})},
    )


def headers_of(error: ClocheError) -> dict[str, str]:
    headers = {"cache-control": "no-store"}
    if isinstance(error, errors.Unauthenticated):
        headers["www-authenticate"] = 'Bearer realm="cloche"'
    if isinstance(error, errors.RangeNotSatisfiable):
        headers["content-range"] = f"bytes */{error.details['size']}"
    if "retry_after_s" in error.details:
        headers["retry-after"] = error.details["retry_after_s"]
    return headers


def _told(request: Request[Any, Any, Any], error: ClocheError) -> Response[Problem]:
    return answer(error, request.url.path)


def _refused(request: Request[Any, Any, Any], error: HTTPException) -> Response[Problem]:
    """What Litestar itself found wrong."""
    known = BY_STATUS.get(error.status_code)
    if known is None:
        return _failed(request, error)
    # Such as the methods that are allowed.
    return answer(known(_words(request, error)), request.url.path, error.headers)


def _words(request: Request[Any, Any, Any], error: HTTPException) -> str:
    extra = error.extra
    if isinstance(extra, list) and extra and isinstance(extra[0], dict):
        known = request.route_handler.parsed_fn_signature.parameters
        where = (_about(known.get(str(each.get("key"))), each) for each in extra[:10])
        return "; ".join(where)[:2000]
    return str(error.detail)[:2000]


def _about(known: FieldDefinition | None, wrong: dict[str, Any]) -> str:
    """The parameter as whoever asks has to spell it, what is wrong with it, and what it may be."""
    name = getattr(known and known.kwarg_definition, "name", None) or wrong.get("key", "?")
    kinds = [] if known is None else [known.annotation, *(each.annotation for each in known.inner_types)]
    choices = [choice for kind in kinds for choice in _choices(kind)]
    return f"{name}: {_plain(wrong.get('message', ''))}" + (f": one of {', '.join(choices)}" if choices else "")


def _choices(kind: Any) -> list[str]:
    return [str(each.value) for each in kind] if isinstance(kind, type) and issubclass(kind, Enum) else []


def _plain(message: str) -> str:
    """For the patterns that addresses have, what they mean."""
    return next((words for pattern, words in PATTERNS.items() if repr(pattern)[1:-1] in message), message)


def _unreadable(request: Request[Any, Any, Any], error: msgspec.MsgspecError) -> Response[Problem]:
    return answer(Invalid(str(error)[:2000]), request.url.path)


def _failed(request: Request[Any, Any, Any], error: Exception) -> Response[Problem]:
    with about(named_in(request.path_params)):
        logger.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return answer(ClocheError("the gateway failed; its log says why"), request.url.path)


HANDLERS: ExceptionHandlersMap = {
    ClocheError: _told,
    HTTPException: _refused,
    msgspec.ValidationError: _unreadable,
    msgspec.DecodeError: _unreadable,
    Exception: _failed,
}
