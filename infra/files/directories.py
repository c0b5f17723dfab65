"""The names in a directory that may hold millions of them: never all in memory."""

import heapq
import os
from collections.abc import Callable
from itertools import chain, islice

AT_A_TIME = 32_768


def sorted_names(
    directory: int, least: bytes = b"", *, wanted: Callable[["os.DirEntry[str]"], bool] | None = None
) -> list[bytes]:
    """The first `AT_A_TIME` names from `least` on, in order; `next_name` says what to go on from."""
    with os.scandir(directory) as entries:
        some = entries if wanted is None else filter(wanted, entries)
        names = (os.fsencode(entry.name) for entry in some)
        names = (name for name in names if name >= least) if least else names
        few = list(islice(names, AT_A_TIME))
        return sorted(few) if len(few) < AT_A_TIME else heapq.nsmallest(AT_A_TIME, chain(few, names))


def next_name(names: list[bytes]) -> bytes | None:
    """None if those were all."""
    return None if len(names) < AT_A_TIME else names[-1] + b"\0"


def some_names(directory: int) -> list[bytes]:
    """Any `AT_A_TIME` of them, or all."""
    with os.scandir(directory) as entries:
        return [os.fsencode(entry.name) for entry in islice(entries, AT_A_TIME)]
