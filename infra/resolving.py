"""From a host's name to its addresses: pinned ones first, then the system's resolver, which is only ever asked here."""

import asyncio
import socket
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, Self

from contracts.errors import Unavailable
from contracts.hostnames import address_of, fold

THREADS = 16
THREADS_A_SANDBOX = 4
"""A sandbox that may ask for names of a slow server must not hold up the others."""
MOST_ADDRESSES = 16
MEMORY_S = 5.0
MEMORY_NAMES = 1024


class _Found(NamedTuple):
    addresses: tuple[str, ...]
    until: float


class Resolver:
    """Whoever asks decides on the answer, and connects to that answer: the name is not looked up again."""

    def __init__(self, pinned: Mapping[str, tuple[str, ...]] | None = None, *, timeout_s: float = 10.0) -> None:
        self._pinned = {fold(name): tuple(map(_canonical, each)) for name, each in (pinned or {}).items()}
        self._timeout_s = timeout_s
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="resolve")
        self._known: dict[str, _Found] = {}
        self._busy: dict[str, int] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Without waiting for a server that does not answer."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def known(self, host: str) -> tuple[str, ...] | None:
        """What needs no looking up: an address, a pinned name, or one that was found a moment ago."""
        if address_of(host) is not None:
            return (host,)
        if host in self._pinned:
            return self._pinned[host]
        found = self._known.get(host)
        return found.addresses if found is not None and time.monotonic() < found.until else None

    async def resolve(self, host: str, *, asker: str) -> tuple[str, ...]:
        """Its addresses in the order to be tried, `MOST_ADDRESSES` at most, one at least.

        Raises `Unavailable` where there are none, the resolver does not answer in time, or `asker` waits for too many.
        """
        known = self.known(host)
        if known is not None:
            return known
        if self._busy.get(asker, 0) >= THREADS_A_SANDBOX:
            raise Unavailable("too many names are being looked up")
        addresses = await self._look_up(host, asker)
        self._known.pop(host, None)
        if len(self._known) >= MEMORY_NAMES:
            self._known.pop(next(iter(self._known)))
        self._known[host] = _Found(addresses, time.monotonic() + MEMORY_S)
        return addresses

    async def _look_up(self, host: str, asker: str) -> tuple[str, ...]:
        self._busy[asker] = self._busy.get(asker, 0) + 1
        looking = asyncio.get_running_loop().run_in_executor(self._threads, _ask_system, host)
        looking.add_done_callback(lambda _: self._free(asker))
        try:
            async with asyncio.timeout(self._timeout_s):
                # The thread goes on, and its place is taken until it is done: nothing can stop it.
                found = await asyncio.shield(looking)
        except TimeoutError:
            raise Unavailable("the name could not be looked up in time") from None
        except OSError as error:
            raise Unavailable(f"the name has no address: {error.strerror or error}") from error
        if not found:
            raise Unavailable("the name has no address")
        return found

    def _free(self, asker: str) -> None:
        left = self._busy.get(asker, 1) - 1
        if left:
            self._busy[asker] = left
        else:
            self._busy.pop(asker, None)


def _ask_system(host: str) -> tuple[str, ...]:
    # With the dot the name is whole: no search domain of this machine is tried behind it.
    found = socket.getaddrinfo(f"{host}.", None, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    addresses = dict.fromkeys(str(each[4][0]) for each in found)
    return tuple(addresses)[:MOST_ADDRESSES]


def _canonical(address: str) -> str:
    return str(address_of(address))


def is_own(address: str) -> bool:
    """Whether it is an address of this machine, where services listen that are meant for its own network."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as probe:
            # Sends nothing. Only an address of its own is reached from that same address.
            probe.connect((address, 9))
            return bool(probe.getsockname()[0] == address)
    except OSError:
        return False
