"""Ids of orders that come over HTTP: with an `Idempotency-Key` the same request is the same order."""

import hashlib
from collections.abc import Callable, Iterator
from itertools import count

from contracts.access import Principal
from infra.ids import new_id


def order_id(principal: Principal, key: str | None, what: str) -> str:
    """`what` tells apart the orders that one key may be used for."""
    return new_id("c") if key is None else f"c-{_digest(principal, key, what)}"


def sandbox_id(principal: Principal, key: str | None, fits: Callable[[str], bool] = lambda _: True) -> str:
    """The first that fits."""
    return next(each for each in _candidates(principal, key) if fits(each))


def _candidates(principal: Principal, key: str | None) -> Iterator[str]:
    for number in count():
        what = f"sandbox\0{number}" if number else "sandbox"
        yield new_id("sb") if key is None else f"sb-{_digest(principal, key, what)}"


def _digest(principal: Principal, key: str, what: str) -> str:
    # Of somebody's own: nobody can take another's order for theirs by guessing a key.
    return hashlib.sha256("\0".join((principal.subject, what, key)).encode()).hexdigest()[:24]
