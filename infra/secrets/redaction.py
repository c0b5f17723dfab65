"""Known secrets, masked in what is written down: the second line of defence, behind never letting them in."""

import contextlib
import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from contracts import codec
from contracts.errors import Invalid
from contracts.payload import Encoding, pack_base64, unpack
from infra.secrets.spellings import Spelling, in_json, spellings
from infra.secrets.store import SecretStore

LOOK_S = 1.0
"""A secret is masked at the latest so long after it was put into the store."""
REMEMBERED = 200
"""Values that the store no longer has: what was rotated away may still be on its way to the log."""


class _Prepared(NamedTuple):
    values: tuple[str, ...]
    spellings: tuple[Spelling, ...]
    in_json: tuple[bytes, ...]


NOTHING = _Prepared((), (), ())
UNSEEN = object()


class Redactor:
    """Masks every secret of the store that it has ever seen there. Nearly free while there is none."""

    def __init__(self, store: SecretStore | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._look_at = 0.0 if store else math.inf
        self._mark: object = UNSEEN
        self._prepared = NOTHING

    @property
    def spellings(self) -> tuple[Spelling, ...]:
        return self._known().spellings

    def holds(self, text: str) -> bool:
        """Whether a known secret is in it, in whatever spelling."""
        raw = text.encode("utf-8", "surrogateescape")
        return any(each.found in raw for each in self._known().spellings)

    def mask(self, raw: bytes) -> bytes:
        """Of the same length; the very same object where there is nothing to mask."""
        return _masked(raw, self._known().spellings)

    def mask_text(self, text: str) -> str:
        raw = text.encode("utf-8", "surrogatepass")
        masked = self.mask(raw)
        return text if masked is raw else masked.decode("utf-8", "surrogatepass")

    def mask_event(self, payload: bytes) -> bytes:
        """An event as it goes to the log: masked in the text of its data, and still what its type says.

        The envelope stays, and so do offsets, sizes and hashes. The very same object where there is nothing to mask.
        """
        known = self._known()
        for text in known.in_json:
            if text in payload:
                return _mask_event(payload, known)
        return payload

    def _known(self) -> _Prepared:
        now = self._clock()
        if now >= self._look_at:
            self._look_at = now + LOOK_S
            self._look()
        return self._prepared

    def _look(self) -> None:
        assert self._store is not None
        mark = self._store.mark()
        if mark == self._mark:
            return
        self._mark = mark
        current, before = self._store.values(), self._prepared.values
        values = tuple(dict.fromkeys((*current, *before)))[: REMEMBERED + len(current)]
        if values != before:
            self._prepared = _prepare(values)


def _prepare(values: tuple[str, ...]) -> _Prepared:
    found = spellings(values)
    return _Prepared(values, found, tuple(dict.fromkeys(in_json(each.found) for each in found)))


def _masked(raw: bytes, known: tuple[Spelling, ...]) -> bytes:
    for each in known:
        if each.found in raw:
            raw = raw.replace(each.found, each.mask)
    return raw


def _mask_event(payload: bytes, known: _Prepared) -> bytes:
    """With letters instead of stars where a star cannot stand, such as in a name: an event must stay readable."""
    masked = payload
    for fill in "*x":
        masked = _with(payload, known.spellings if fill == "*" else spellings(known.values, fill))
        with contextlib.suppress(Invalid):
            codec.decode_fact(codec.decode_head(masked))
            return masked
    return masked


def _with(payload: bytes, known: tuple[Spelling, ...]) -> bytes:
    try:
        event: dict[str, Any] = msgspec.json.decode(payload)
    except msgspec.DecodeError:
        return _masked(payload, known)
    event["data"] = _walk(event.get("data"), known)
    return msgspec.json.encode(event)


def _walk(value: Any, known: tuple[Spelling, ...]) -> Any:
    if isinstance(value, str):
        return _masked(value.encode(), known).decode()
    if isinstance(value, list):
        return [_walk(each, known) for each in value]
    if isinstance(value, dict):
        plain = _in_bytes(value, known)
        return {_walk(key, known): _walk(each, known) for key, each in plain.items()}
    return value


def _in_bytes(value: dict[str, Any], known: tuple[Spelling, ...]) -> dict[str, Any]:
    """Bytes that are not text are base64 in the event: there the whole secret can be masked, not only most of it."""
    if value.get("encoding") != Encoding.BASE64 or not isinstance(value.get("data"), str):
        return value
    raw = unpack(value["data"], Encoding.BASE64)
    return {**value, "data": pack_base64(_masked(raw, known)).data}
