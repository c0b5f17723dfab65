"""Events a second through all rules, beside decoding alone: `python -m tests.guardian.speed`."""

import time
from collections.abc import Callable

import msgspec

from contracts import codec
from contracts.guardian import Guardian
from services.guardian.engine import bind
from services.guardian.history import History
from services.guardian.rules.table import RULES
from tests.guardian.stories import HONEST
from tests.guardian.story import Line, recorded

SANDBOXES = 40
ROUNDS = 5


def log() -> list[tuple[int, bytes]]:
    """Every honest history, once for each of many sandboxes."""
    events = [
        bytes(msgspec.json.decode(line, type=Line).event).replace(b'"sb-1"', b'"sb-%d"' % sandbox)
        for sandbox in range(SANDBOXES)
        for name in HONEST
        for line in recorded(name)
    ]
    return list(enumerate(events, 1))


def decode(events: list[tuple[int, bytes]]) -> None:
    for _, raw in events:
        codec.decode_fact(codec.decode_head(raw))


def judge(events: list[tuple[int, bytes]], *rules: str) -> None:
    history = History(bind(Guardian(), rules))
    for sequence, raw in events:
        list(history.feed(sequence, None, raw))


def rate(work: Callable[[], None], events: int) -> float:
    """Of processor time, the best of some rounds."""
    best = float("inf")
    for _ in range(ROUNDS):
        begun = time.process_time()
        work()
        best = min(best, time.process_time() - begun)
    return events / best


def main() -> None:
    events = log()
    bare = rate(lambda: decode(events), len(events))
    print(f"decoding alone    {bare:10,.0f} events/s")
    print(f"all rules         {rate(lambda: judge(events), len(events)):10,.0f} events/s")
    for name in RULES:
        print(f"{name:<18}{rate(lambda name=name: judge(events, name), len(events)):10,.0f} events/s")  # type: ignore[misc]


if __name__ == "__main__":
    main()
