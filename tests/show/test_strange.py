"""What no honest writer writes, and the file of somebody else may have: it is told or passed over, and in nobody's way.

Pure.
"""

import msgspec
from hypothesis import given

from contracts import codec, folding
from contracts.errors import Invalid
from contracts.folding import Folded
from contracts.message import EventHead, Fact
from contracts.past import StateAt
from contracts.state import Sequenced
from contracts.steps import Steps
from services.cli import state_view
from services.cli.showing_story import Story
from services.cli.showing_summary import Counting, summary_lines
from services.cli.showing_text import Teller
from tests.contracts.properties import calm
from tests.replay.strange import histories


def readable(events: list[Sequenced]) -> list[tuple[int, EventHead, Fact]]:
    """As `cloche show` and `cloche compare` take them."""
    found: list[tuple[int, EventHead, Fact]] = []
    for sequence, head in events:
        try:
            fact = codec.decode_fact(head)
        except Invalid:
            continue
        if fact is not None:
            found.append((sequence, head, fact))
    return found


@calm
@given(histories())
def test_whatever_was_written_its_story_is_told_to_people_and_programs(events: list[Sequenced]) -> None:
    for full in (False, True):
        story, teller = Story(full=full), Teller(full=full)
        items = [item for told in readable(events) for item in story.feed(*told)] + story.end()
        for item in items:
            teller.lines(item)
            msgspec.json.encode(item)


@calm
@given(histories())
def test_whatever_was_written_it_is_counted(events: list[Sequenced]) -> None:
    counting, steps = Counting(), Steps()
    for told in readable(events):
        counting.feed(*told)
        steps.feed(*told)
    assert steps.spent.events == len(readable(events))
    summary = counting.summary()
    if summary is not None:
        assert summary_lines(summary)
        msgspec.json.encode(summary)


@calm
@given(histories())
def test_whatever_was_written_the_state_after_it_is_shown(events: list[Sequenced]) -> None:
    folded: Folded | None = None
    for sequence, head in events:
        folded = folding.apply(folded, sequence, head)
    if folded is not None:
        answer = StateAt(
            sequence=folded.sequence,
            time=folded.state.last_event_at,
            state=folded.state,
            conversation=folded.conversation,
            traffic=folded.traffic,
        )
        assert list(state_view.lines(answer, "no entries"))
