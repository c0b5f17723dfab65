"""The span of a request: what everything that it leads to is a part of."""

import time

from infra.observing import tracing
from infra.observing.spans import Value


def tell_request(method: str, route: str, status: int, trace: str, given: str | None, begun_ns: int) -> None:
    """It is over. `route` is its template; `given`: the trace that whoever asks is in."""
    here, above = tracing.place_of(trace), tracing.place_of(given)
    if here is None:
        return
    said: dict[str, Value] = {"http.request.method": method, "http.route": route}
    if status:
        said["http.response.status_code"] = status
    failure = "" if 0 < status < 500 else f"status {status}"
    tracing.tell(
        f"{method} {route}",
        here,
        "" if above is None else above.span,
        begun_ns,
        time.time_ns(),
        said,
        failure=failure,
        kind="server",
    )
