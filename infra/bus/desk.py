"""Answers the one request that a service takes about a sandbox. A failure is an answer, too."""

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import msgspec

from contracts import codec, subjects
from contracts.errors import ClocheError, Invalid
from contracts.message import Order
from contracts.queries import Reply
from infra.observing import about, denials

Asked = TypeVar("Asked", bound=Order)


def failed(error: ClocheError) -> bytes:
    """The answer that tells it."""
    denials.failed(about.service.get(), error.code)
    return codec.encode(Reply(failure=error.failure()))


class Desk(Generic[Asked]):
    """For `cloche.rpc.<node>.<sandbox>.<family>.<verb>`. `serve` is given the sandbox and what was asked."""

    def __init__(
        self, family: str, verb: str, kind: type[Asked], serve: Callable[[str, Asked], Awaitable[msgspec.Struct]]
    ) -> None:
        self._family = family
        self._verb = verb
        self._kind = kind
        self._serve = serve

    async def answer(self, subject: str, raw: bytes) -> bytes:
        """Never raises for a bad request."""
        try:
            address = subjects.parse_rpc(self._family, subject)
            if address.verb != self._verb:
                raise Invalid(f"unknown request {address.verb!r}: one of {self._verb}")
            request = codec.decode(raw or b"{}", self._kind)
            served = await self._serve(address.sandbox, request)
            return codec.encode(Reply(result=msgspec.Raw(codec.encode(served))))
        except ClocheError as error:
            return failed(error)
