"""What a provider says while it works on something long: whoever asked may listen."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_listener: ContextVar[Callable[[str], None] | None] = ContextVar("listener", default=None)


@contextmanager
def listening(call: Callable[[str], None]) -> Iterator[None]:
    """`call` with each line that is told within, in the event loop or in a thread. It must not raise or block."""
    token = _listener.set(call)
    try:
        yield
    finally:
        _listener.reset(token)


def tell(line: str) -> None:
    if (call := _listener.get()) is not None:
        call(line)
