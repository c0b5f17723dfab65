"""Storms of denials, told in few events: the first of a kind at once, those that follow by their number. Pure."""

from typing import NamedTuple

from msgspec.structs import replace

from contracts.events.network import NetworkDenied

FIRST_WINDOW_S = 1.0
LONGEST_WINDOW_S = 30.0
MOST_KINDS = 256
"""Told apart at a time: a scan over many names must not fill the log either."""
OTHERS = NetworkDenied(host="", port=0, method="", reason="many others, too many to be told apart")


class _Kind(NamedTuple):
    host: str
    port: int
    method: str
    reason: str


class _Storm:
    def __init__(self, denied: NetworkDenied, now: float) -> None:
        self.denied = denied
        self.untold = 0
        self.due = now
        self.window_s = FIRST_WINDOW_S


class Denials:
    def __init__(self) -> None:
        self._storms: dict[_Kind, _Storm] = {}

    def add(self, denied: NetworkDenied, now: float, *, kind: str | None = None) -> None:
        """`kind` stands for the reason where that holds more than is told apart."""
        key = _Kind(denied.host, denied.port, denied.method, kind or denied.reason)
        if key not in self._storms and len(self._storms) >= MOST_KINDS:
            denied = OTHERS
            key = _Kind(denied.host, denied.port, denied.method, denied.reason)
        storm = self._storms.setdefault(key, _Storm(denied, now))
        storm.untold += 1

    def due(self) -> float | None:
        """When there is something to tell; None while there is nothing."""
        return min((storm.due for storm in self._storms.values() if storm.untold), default=None)

    def take(self, now: float, *, everything: bool = False) -> list[NetworkDenied]:
        """What is to be told by now; `everything` also what would still wait for more of its kind."""
        told: list[NetworkDenied] = []
        for key, storm in list(self._storms.items()):
            if storm.due > now and not everything:
                continue
            if storm.untold:
                told.append(replace(storm.denied, count=storm.untold))
                storm.untold = 0
                storm.due = now + storm.window_s
                storm.window_s = min(storm.window_s * 2, LONGEST_WINDOW_S)
            else:
                del self._storms[key]
        return told
