"""What stands in addresses and headers, with its bounds."""

from typing import Annotated, Any

from litestar import Request
from litestar.di import NamedDependency
from litestar.params import HeaderParameter, PathParameter, QueryParameter, SkipValidation

from contracts.access import Principal
from contracts.http import moments
from contracts.ids import TOKEN_PATTERN
from infra.client.sandbox import Sandbox
from services.gateway.desk import Desk

MOST_SEQUENCE = 2**53

Asked = Request[Principal, Any, Any]
TheDesk = SkipValidation[NamedDependency[Desk]]
Found = SkipValidation[NamedDependency[Sandbox]]
"""The sandbox that the address names, if whoever asks may do this with it: see `access`."""

SandboxParam = Annotated[
    str, PathParameter(pattern=TOKEN_PATTERN, min_length=1, max_length=64, description="The sandbox's id.")
]
ExecParam = Annotated[
    str,
    PathParameter(
        pattern=TOKEN_PATTERN,
        min_length=1,
        max_length=64,
        description="The command's id, as `POST …/commands` told it.",
    ),
]
Key = Annotated[
    str | None,
    HeaderParameter(
        name="Idempotency-Key",
        min_length=1,
        max_length=200,
        description="The same request with the same key is done once, however often it comes.",
    ),
]
At = Annotated[
    str | None,
    QueryParameter(
        name="at",
        pattern=moments.PATTERN,
        max_length=40,
        description="A moment of the past: a sequence of the log, or a time. Absent = now.",
    ),
]
Limit = Annotated[int, QueryParameter(name="limit", ge=1, le=1000, description="How many at most.")]
RangeParam = Annotated[
    str | None,
    HeaderParameter(
        name="Range", max_length=200, description="`bytes=0-99`: a part. Several at a time are not served."
    ),
]
IfMatch = Annotated[
    str | None,
    HeaderParameter(name="If-Match", max_length=2000, description="Only if its content is one of these; `*` = any."),
]
IfNoneMatch = Annotated[
    str | None,
    HeaderParameter(
        name="If-None-Match", max_length=2000, description="Only if its content is none of these; `*` = any."
    ),
]
IfRange = Annotated[
    str | None,
    HeaderParameter(
        name="If-Range", max_length=200, description="`Range` holds only for this content, else all comes."
    ),
]
