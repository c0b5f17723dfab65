"""Every kind of event has words for its line, and those of the past and the future are shown as they stand."""

import msgspec
import pytest

from contracts import codec
from contracts.message import EventHead
from contracts.registry import EVENTS
from services.cli.summaries import summary
from tests.contracts.samples import EVENT_SAMPLES

WORDED = ("command", "file", "tool", "health", "guardian", "dead_letter")


def head_of(tag: str) -> EventHead:
    return codec.decode_head(codec.encode(EVENT_SAMPLES[tag]))


@pytest.mark.parametrize("tag", [tag for tag in EVENTS if tag.startswith(WORDED)])
def test_what_happens_in_a_sandbox_is_said_in_words(tag: str) -> None:
    assert not summary(head_of(tag)).startswith("{")


def test_a_tag_that_nobody_knows_is_shown_as_it_stands() -> None:
    head = msgspec.structs.replace(head_of("file.created"), type="file.dreamt", data=msgspec.Raw(b'{"of":"sheep"}'))
    assert summary(head) == '{"of":"sheep"}'
