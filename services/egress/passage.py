"""One request, or one tunnel, that was let through: from the word to its end."""

import time
from collections.abc import Callable

from msgspec.structs import replace

from contracts.events.network import NetworkAllowed, NetworkDenied
from infra.proxy.port import Wanted
from services.egress.record import Record


class LetThrough:
    """`infra.proxy.port.Passage`."""

    def __init__(
        self,
        record: Record,
        wanted: Wanted,
        addresses: tuple[str, ...],
        request: NetworkAllowed,
        number: int,
        approval: str | None,
        over: Callable[["LetThrough"], None],
    ) -> None:
        """`approval` is the answer that it rests on, where the policy alone would not do. `over` hears of its end."""
        self._record = record
        self.wanted = wanted
        self._addresses = addresses
        self._request = request
        self._number = number
        self.approval = approval
        self._over = over
        self._begun = time.monotonic()
        self._address: str | None = None
        self._cut: Callable[[str], None] | None = None
        self._cut_for: str | None = None
        self._ended = False

    @property
    def addresses(self) -> tuple[str, ...]:
        return self._addresses

    def connected(self, address: str) -> None:
        self._address = address

    def end(self, *, status: int | None, sent: int, received: int, error: str | None) -> None:
        if self._ended:
            return
        self._ended = True
        request = replace(
            self._request,
            address=self._address,
            status=status,
            sent_bytes=sent,
            received_bytes=received,
            duration_ms=round((time.monotonic() - self._begun) * 1000, 3),
            error=self._cut_for or error,
        )
        self._record.end(self._number, request)
        self._over(self)

    def deny(self, reason: str) -> None:
        if self._ended:
            return
        self._ended = True
        self._record.drop(self._number)
        wanted = self.wanted
        denied = NetworkDenied(
            host=wanted.host,
            port=wanted.port,
            method=self._request.method,
            reason=reason,
            address=self._address,
            via=wanted.via,
        )
        self._record.deny(denied)
        self._over(self)

    def on_cut(self, cut: Callable[[str], None]) -> None:
        self._cut = cut
        if self._cut_for is not None:
            cut(self._cut_for)

    def cut(self, reason: str) -> None:
        """The permission has ended."""
        if self._ended or self._cut_for is not None:
            return
        self._cut_for = reason
        if self._cut is not None:
            self._cut(reason)
