"""Every kind of event has words for its line, and those of the past and the future are shown as they stand."""

import msgspec
import pytest

from contracts import codec
from contracts.events.agent import AgentToolUse
from contracts.events.guardian import GuardianObserved
from contracts.message import EventHead
from contracts.registry import EVENTS
from infra.words.summaries import summary
from tests.contracts.samples import EVENT_SAMPLES

WORDED = ("agent", "user", "command", "file", "tool", "health", "guardian", "network", "sandbox.network", "dead_letter")


def head_of(tag: str) -> EventHead:
    return codec.decode_head(codec.encode(EVENT_SAMPLES[tag]))


@pytest.mark.parametrize("tag", [tag for tag in EVENTS if tag.startswith(WORDED)])
def test_what_happens_in_a_sandbox_is_said_in_words(tag: str) -> None:
    assert not summary(head_of(tag)).startswith("{")


def test_a_tag_that_nobody_knows_is_shown_as_it_stands() -> None:
    head = msgspec.structs.replace(head_of("file.created"), type="file.dreamt", data=msgspec.Raw(b'{"of":"sheep"}'))
    assert summary(head) == '{"of":"sheep"}'


def test_a_step_that_was_not_taken_is_shown_with_the_reason() -> None:
    data = msgspec.json.encode(
        GuardianObserved(rule="budget", finding="spent", evidence=(1,), step="pause", held="shadow")
    )
    head = msgspec.structs.replace(head_of("guardian.observed"), data=msgspec.Raw(data))
    assert summary(head) == "budget: pause (shadow): spent"


def test_a_call_with_one_argument_reads_as_one_would_type_it() -> None:
    data = msgspec.json.encode(AgentToolUse(run="run-1", call="c", tool="Bash", input={"command": "ls -l"}))
    head = msgspec.structs.replace(head_of("agent.tool_use"), data=msgspec.Raw(data))
    assert summary(head) == "run-1  Bash ls -l"


def test_a_number_that_is_too_large_for_anything_is_shown_all_the_same() -> None:
    raw = b'{"run":"run-1","call":"c","tool":"Sleep","input":{"seconds":1%s}}' % (b"0" * 30)
    head = msgspec.structs.replace(head_of("agent.tool_use"), data=msgspec.Raw(raw))
    assert summary(head).startswith('run-1  Sleep {"seconds": 1000000000')
