"""The addresses that a name leads to, if every one of them may be reached."""

import functools
import time
from collections.abc import Callable

from contracts.errors import Unavailable
from contracts.hostnames import address_of
from infra.resolving import Resolver, is_own
from services.egress.addresses import Network, why_forbidden

REMEMBERED_S = 30.0


class Forbidden(Exception):
    """Nobody may reach it, whatever is allowed by name."""

    def __init__(self, address: str, kind: str) -> None:
        super().__init__(f"{address} is {kind}")
        self.address = address
        self.reason = f"it leads to {kind}"


class Unresolved(Exception):
    """There is no address to connect to."""


class Reach:
    def __init__(
        self, resolver: Resolver, permitted: tuple[Network, ...], is_own: Callable[[str], bool] = is_own
    ) -> None:
        """`is_own` says which addresses are this machine's."""
        self._resolver = resolver
        self._permitted = permitted
        self._is_own = is_own
        self._judge = functools.lru_cache(maxsize=4096)(self._judge_address)

    def known(self, host: str) -> tuple[str, ...] | None:
        """Without looking anything up; None where it must be. Raises `Forbidden`."""
        addresses = self._resolver.known(host)
        return None if addresses is None else self._all(addresses)

    async def addresses(self, host: str, *, asker: str) -> tuple[str, ...]:
        """Looked up once; whoever connects does so to one of these.

        Raises `Forbidden` where one of them is not to be reached, whichever the others are, and `Unresolved`.
        """
        try:
            found = await self._resolver.resolve(host, asker=asker)
        except Unavailable as error:
            raise Unresolved(error.message) from error
        return self._all(found)

    def _all(self, addresses: tuple[str, ...]) -> tuple[str, ...]:
        for address in addresses:
            kind = self._judge(address, int(time.monotonic() / REMEMBERED_S))
            if kind is not None:
                raise Forbidden(address, kind)
        return addresses

    def _judge_address(self, text: str, period: int) -> str | None:  # noqa: ARG002
        """`period` makes the memory forget: a machine may be given another address."""
        address = address_of(text)
        if address is None:
            # The system names a link-local address with its zone.
            return "an address with a zone"
        kind = why_forbidden(address, self._permitted)
        if kind is None and self._is_own(text) and not any(address in network for network in self._permitted):
            return "an address of this machine"
        return kind
