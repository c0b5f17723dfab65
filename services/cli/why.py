"""From a sandbox's events to the story of how it came to be in its state. Pure."""

import datetime
from collections.abc import Iterable

from contracts.state import Sequenced
from services.cli.advice import advice
from services.cli.plot import Plot
from services.cli.sentences import sentences
from services.cli.story import Story
from services.cli.verdict import headline

SHOWN = 12


def tell(
    sandbox: str, events: Iterable[Sequenced], *, now: datetime.datetime, head: int, shown: int = SHOWN
) -> Story | None:
    """The last `shown` things that happened, and what they came to; None where the log knows no such sandbox.

    `events` are those that `plot.filters` names. `head` is the last sequence of the log.
    """
    plot = Plot(shown)
    for sequence, event in events:
        plot.feed(sequence, event)
    return story_of(sandbox, plot, now=now, head=head)


def story_of(
    sandbox: str, plot: Plot, *, now: datetime.datetime, head: int, unseen_since: datetime.datetime | None = None
) -> Story | None:
    """`unseen_since`: when it was last seen alive, where somebody should have looked since."""
    first = headline(plot, now, unseen_since)
    if first is None:
        return None
    told = sentences(plot)
    return Story(
        sandbox=sandbox,
        status=None if plot.state is None else str(plot.state.status),
        health="unknown" if plot.state is None else plot.state.health,
        headline=first,
        sentences=tuple(told),
        earlier=plot.events - len({sequence for each in told for sequence in each.sequences}),
        next=tuple(advice(plot, now=now, head=head, unseen=unseen_since is not None)),
    )
