"""Lists of several partitions as one."""

from collections.abc import Sequence

from contracts.queries import SandboxList


def merged(lists: Sequence[SandboxList], limit: int) -> SandboxList:
    """By id, no more than `limit`. How far a log was read is told of one log alone: 0 where there are several."""
    if len(lists) == 1:
        return lists[0]
    found = sorted((state for each in lists for state in each.sandboxes), key=lambda state: state.sandbox)
    more = len(found) > limit or any(each.more for each in lists)
    return SandboxList(sandboxes=tuple(found[:limit]), applied_sequence=0, more=more)
