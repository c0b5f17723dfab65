"""How often somebody may ask."""

import ipaddress
import math
from collections import OrderedDict

from litestar.types import Scope

from contracts.access import Principal
from contracts.errors import TooManyRequests
from infra.proxy.bucket import Bucket
from infra.settings import Gateway

REMEMBERED = 10_000
"""Principals or addresses; whoever was away longest begins anew."""
FAILURES_PER_S = 1.0
FAILURES_BURST = 20
"""Of one address with tokens that do not count."""
NETWORK_V6 = 64
"""Bits that somebody is given: the rest of an address costs nothing to change."""


class Limits:
    """Whoever has a token that counts is limited by name alone: nobody else at the same address can shut them out."""

    def __init__(self, settings: Gateway) -> None:
        self._principals = _Buckets(settings.requests_per_s, settings.burst)
        self._addresses = _Buckets(settings.requests_per_s, settings.burst)
        self._failures = _Buckets(FAILURES_PER_S, FAILURES_BURST)

    def check(self, principal: Principal) -> None:
        """Raises `TooManyRequests`."""
        self._principals.take(principal.subject, "too many requests: slow down")

    def check_address(self, scope: Scope) -> None:
        """For what anybody may ask. Raises `TooManyRequests`."""
        self._addresses.take(_address(scope), "too many requests from there: slow down")

    def failed(self, scope: Scope) -> None:
        """For a token that did not count. Raises `TooManyRequests` where too many did not."""
        self._failures.take(_address(scope), "too many tokens that do not count came from there")


class _Buckets:
    def __init__(self, per_s: float, burst: int) -> None:
        self._per_s = per_s
        self._burst = burst
        self._known: OrderedDict[str, Bucket] = OrderedDict()

    def take(self, name: str, words: str) -> None:
        bucket = self._known.get(name)
        if bucket is None:
            bucket = self._known[name] = Bucket(self._per_s, self._burst)
            if len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        self._known.move_to_end(name)
        if not bucket.take():
            raise TooManyRequests(words, retry_after_s=str(max(1, math.ceil(bucket.wait_s))))


def _address(scope: Scope) -> str:
    client = scope.get("client")
    host = client[0] if client else ""
    try:
        return str(ipaddress.ip_network(f"{host.partition('%')[0]}/{NETWORK_V6}", strict=False))
    except ValueError:
        return host
