"""Files and network in the story of a sandbox: what comes in bursts is told together."""

from contracts.changes import changes_of
from contracts.events import network
from contracts.message import EventHead, Fact, Time
from services.cli.showing_items import Change, Host, Item, Reached, Refused, Touched

MOST_FILES = 100
MOST_DIFFS = 256 * 1024
"""Characters of all diffs that are told together."""
MOST_HOSTS = 50


class Files:
    def __init__(self, *, full: bool) -> None:
        self._full = full
        self._begin: tuple[int, Time] | None = None
        self._last = 0
        self._changes: list[Change] = []
        self._more = 0
        self._room = MOST_DIFFS

    def feed(self, sequence: int, head: EventHead, fact: Fact) -> list[Item]:
        self._begin = self._begin or (sequence, head.time)
        self._last = sequence
        told: list[Item] = []
        for change in changes_of(fact):
            if self._full and (len(self._changes) >= MOST_FILES or self._room <= 0):
                told += self.flush()
                self._begin = (sequence, head.time)
            self._add(change.action, change.path, change.moved_from, change.facts)
        return told

    def _add(self, action: str, path: str, moved_from: str | None, facts: object) -> None:
        kind = getattr(facts, "kind", "file")
        # That a directory is there is all that is worth a line.
        if kind == "directory" and action == "modified":
            return
        if len(self._changes) >= MOST_FILES:
            self._more += 1
            return
        diff = (getattr(facts, "diff", None) or "")[: max(self._room, 0)]
        self._room -= len(diff) + len(path)
        size = getattr(facts, "size", None) if kind == "file" else None
        shown = f"{path}/" if kind == "directory" else path
        self._changes.append(Change(action=action, path=shown, moved_from=moved_from, size=size, diff=diff))

    def flush(self) -> list[Item]:
        if self._begin is None or not (self._changes or self._more):
            self._begin = None
            return []
        (sequence, at), changes, more = self._begin, tuple(self._changes), self._more
        self._begin, self._changes, self._more, self._room = None, [], 0, MOST_DIFFS
        return [Touched(sequence=sequence, at=at, changes=changes, more=more, last_sequence=self._last)]


class Network:
    def __init__(self) -> None:
        self._begin: tuple[int, Time] | None = None
        self._last = 0
        self._hosts: dict[tuple[str, int], list[int]] = {}
        self._denied: dict[tuple[str, int, str], int] = {}
        self._more = 0

    def feed(self, sequence: int, head: EventHead, fact: Fact) -> None:
        match fact:
            case network.NetworkAllowed():
                self._add(fact)
            case network.NetworkBatch():
                for each in fact.requests:
                    self._add(each)
            case network.NetworkDenied():
                self._deny(fact)
            case _:
                return
        self._begin = self._begin or (sequence, head.time)
        self._last = sequence

    def _add(self, request: network.NetworkAllowed) -> None:
        key = (request.host, request.port)
        if key not in self._hosts and len(self._hosts) >= MOST_HOSTS:
            self._more += 1
            return
        counts = self._hosts.setdefault(key, [0, 0, 0, 0])
        failed = request.error is not None or (request.status or 0) >= 400
        for index, count in enumerate((1, request.sent_bytes, request.received_bytes, int(failed))):
            counts[index] += count

    def _deny(self, fact: network.NetworkDenied) -> None:
        key = (fact.host, fact.port, fact.reason)
        if key not in self._denied and len(self._denied) >= MOST_HOSTS:
            self._more += fact.count
            return
        self._denied[key] = self._denied.get(key, 0) + fact.count

    def flush(self) -> list[Item]:
        if self._begin is None:
            return []
        sequence, at = self._begin
        told = Reached(
            sequence=sequence,
            at=at,
            hosts=tuple(
                Host(host=host, port=port, requests=count, sent_bytes=sent, received_bytes=received, failed=failed)
                for (host, port), (count, sent, received, failed) in self._hosts.items()
            ),
            denied=tuple(
                Refused(host=host, port=port, reason=reason, count=count)
                for (host, port, reason), count in self._denied.items()
            ),
            more=self._more,
            last_sequence=self._last,
        )
        self._begin, self._hosts, self._denied, self._more = None, {}, {}, 0
        return [told]
