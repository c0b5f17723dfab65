"""What the log has lost, as answers that are made of it tell it."""

from collections.abc import Iterable

from contracts import subjects
from contracts.lacking import Lack
from infra.bus import gaps
from infra.bus.gaps import Gap
from infra.log.view import LogView

MOST = 1000
ENDLESS = 2**63


async def lacking(view: LogView, first: int, last: int | None = None) -> tuple[Lack, ...]:
    """Within a range; absent = to its end. The first `MOST` of them. Raises `Unavailable`."""
    found = await view.lost(first, ENDLESS if last is None else last)
    return tuple(Lack(first_sequence=gap.first, last_sequence=gap.last) for gap in found[:MOST])


async def lacking_of(view: LogView, sandbox: str, last: int | None) -> tuple[Lack, ...]:
    """Within all of a sandbox's past up to a sequence, wherever reading it began: what is remembered of it may have
    been made without what was lost. Raises `Unavailable`.
    """
    first = await view.first(subjects.events_of(sandbox)[0])
    return () if first is None else await lacking(view, first.seq, last)


def warn_of(told: Iterable[Lack]) -> None:
    """As reading it oneself would."""
    for lack in told:
        gaps.warn(Gap(lack.first_sequence, lack.last_sequence))
