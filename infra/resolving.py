"""From a host's name to its addresses: pinned ones first, then the system's resolver, which is only ever asked here."""

import asyncio
import collections
import socket
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, Self

from contracts.errors import Unavailable
from contracts.hostnames import address_of, fold

THREADS = 128
LOOKUPS_A_SANDBOX = 4
"""Under way at a time. Nothing can stop one: a server that does not answer holds a thread for as long as it likes."""
RESERVE = 64
"""Threads that only a sandbox without a lookup under way may have: others that hang do not keep it from its first."""
MOST_ADDRESSES = 16
MEMORY_S = 5.0
MEMORY_NAMES = 1024

LookUp = Callable[[str], tuple[str, ...]]


class _Found(NamedTuple):
    addresses: tuple[str, ...]
    until: float


def ask_system(host: str) -> tuple[str, ...]:
    """Blocks for as long as the system's resolver does. Raises OSError."""
    # With the dot the name is whole: no search domain of this machine is tried behind it.
    found = socket.getaddrinfo(f"{host}.", None, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    addresses = dict.fromkeys(str(each[4][0]) for each in found)
    return tuple(addresses)[:MOST_ADDRESSES]


class Resolver:
    """Whoever asks decides on the answer, and connects to that answer: the name is not looked up again."""

    def __init__(
        self,
        pinned: Mapping[str, tuple[str, ...]] | None = None,
        *,
        timeout_s: float = 10.0,
        look_up: LookUp = ask_system,
    ) -> None:
        """`look_up` is called in a thread."""
        self._pinned = {fold(name): tuple(map(_canonical, each)) for name, each in (pinned or {}).items()}
        self._timeout_s = timeout_s
        self._look_up = look_up
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="resolve")
        self._known: dict[str, _Found] = {}
        self._under_way: dict[str, asyncio.Future[tuple[str, ...]]] = {}
        self._busy: collections.Counter[str] = collections.Counter()
        self._freed = asyncio.Event()

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

        Whoever asks for the same name meanwhile gets the same answer. Raises `Unavailable` where there are none, or
        the resolver does not answer in time, which counts from here: also while `asker` waits for others of its own.
        """
        try:
            async with asyncio.timeout(self._timeout_s):
                found = await self._found(host, asker)
        except TimeoutError:
            raise Unavailable("the name could not be looked up in time") from None
        except OSError as error:
            raise Unavailable(f"the name has no address: {error.strerror or error}") from error
        if not found:
            raise Unavailable("the name has no address")
        return found

    async def _found(self, host: str, asker: str) -> tuple[str, ...]:
        while True:
            known = self.known(host)
            if known is not None:
                return known
            looking = self._under_way.get(host)
            if looking is None and self._has_thread_for(asker):
                looking = self._begin(host, asker)
            if looking is not None:
                # The thread goes on, and its place is taken until it is done.
                return await asyncio.shield(looking)
            await self._freed.wait()

    def _has_thread_for(self, asker: str) -> bool:
        own, total = self._busy[asker], self._busy.total()
        return total < THREADS if not own else own < LOOKUPS_A_SANDBOX and total < THREADS - RESERVE

    def _begin(self, host: str, asker: str) -> asyncio.Future[tuple[str, ...]]:
        looking = asyncio.get_running_loop().run_in_executor(self._threads, self._look_up, host)
        self._busy[asker] += 1
        self._under_way[host] = looking
        looking.add_done_callback(lambda _: self._end(host, asker))
        return looking

    def _end(self, host: str, asker: str) -> None:
        looking = self._under_way.pop(host)
        self._busy[asker] -= 1
        # A count of nothing is no entry, or there would be one for each sandbox that ever was.
        self._busy = +self._busy
        freed, self._freed = self._freed, asyncio.Event()
        freed.set()
        if not looking.cancelled() and looking.exception() is None and looking.result():
            self._remember(host, looking.result())

    def _remember(self, host: str, addresses: tuple[str, ...]) -> None:
        self._known.pop(host, None)
        if len(self._known) >= MEMORY_NAMES:
            self._known.pop(next(iter(self._known)))
        self._known[host] = _Found(addresses, time.monotonic() + MEMORY_S)


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
