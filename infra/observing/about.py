"""What is being worked on: for the words that are logged meanwhile, and for the spans."""

import datetime
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple, ParamSpec, TypeVar

import msgspec

from contracts import subjects
from contracts.errors import Invalid


class About(NamedTuple):
    sandbox: str = ""
    command: str = ""


class Order:
    """One that was taken from the queue. Looked into only when somebody wants to know."""

    __slots__ = ("raw", "stored_at", "subject")

    def __init__(self, subject: str, raw: bytes, stored_at: datetime.datetime) -> None:
        self.subject = subject
        self.raw = raw
        self.stored_at = stored_at

    @property
    def sandbox(self) -> str:
        try:
            return subjects.sandbox_of(self.subject)
        except Invalid:
            return ""

    @property
    def command(self) -> str:
        """What it says that it is called; whoever sent it may have written anything."""
        try:
            return msgspec.json.decode(self.raw, type=_Identified).id[:200]
        except msgspec.MsgspecError:
            return ""


class _Identified(msgspec.Struct):
    id: str


service: ContextVar[str] = ContextVar("service", default="")
"""Whose task this is, where several services share a process."""
_current: ContextVar[About | Order | None] = ContextVar("about", default=None)


def current() -> About | Order | None:
    return _current.get()


def order() -> Order | None:
    """The one that is being carried out."""
    here = _current.get()
    return here if isinstance(here, Order) else None


@contextmanager
def about(what: About | Order) -> Iterator[None]:
    """Also for every task that is begun meanwhile."""
    token = _current.set(what)
    try:
        yield
    finally:
        _current.reset(token)


Args = ParamSpec("Args")
Result = TypeVar("Result")


async def speaking_of(
    what: About, work: Callable[Args, Awaitable[Result]], *args: Args.args, **named: Args.kwargs
) -> Result:
    """For a task that is about one sandbox, whoever begins it. An order for that sandbox says more, and stays."""
    here = current()
    with about(here if isinstance(here, Order) and here.sandbox == what.sandbox else what):
        return await work(*args, **named)
