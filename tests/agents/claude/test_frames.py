"""Whatever a frame holds, reading it takes no longer than it may."""

import json

import pytest

from contracts.errors import Invalid
from services.agent.runtimes.claude import frames
from services.agent.runtimes.claude.sessions import _newest
from services.agent.transcripts import Document

MANY = frames.MOST_VALUES + 1
SESSION = "6f0d3c52-1b0f-4c1a-8f6e-2f0e9f1c7a51"


@pytest.mark.parametrize("entry", ["{}", "[]", "1", '"a"', '"\\""', '"\\\\"'])
async def test_a_frame_of_too_many_values_is_none(entry: str) -> None:
    line = f'{{"type":"x","entries":[{",".join([entry] * MANY)}]}}'
    with pytest.raises(Invalid, match="values"):
        await frames.read(line.encode())


@pytest.mark.parametrize("words", ["{[,", '\\",', "\\\\,", '"'])
async def test_a_frame_of_long_text_is_one_whatever_the_text(words: str) -> None:
    frame = {"type": "x", "text": words * MANY, "more": ["y", "\\"]}
    assert await frames.read(json.dumps(frame).encode()) == frame


@pytest.mark.parametrize("line", [b'"' + b"{" * 300_000, b'{"type":"' + b"\\" * 300_000 + b",{[" * 200_000])
async def test_a_frame_that_breaks_off_is_none(line: bytes) -> None:
    with pytest.raises(Invalid):
        await frames.read(line)


def test_amounts_are_finite_and_within_reason() -> None:
    for told, count, amount in [
        (7, 7, 7.0),
        (-1, 0, 0.0),
        (True, 0, 0.0),
        (10**400, frames.MOST_TOKENS, frames.MOST_AMOUNT),
        (1.7e308, 0, frames.MOST_AMOUNT),
        (float("inf"), 0, frames.MOST_AMOUNT),
        (float("nan"), 0, 0.0),
        ("7", 0, 0.0),
    ]:
        assert (frames.count({"n": told}, "n"), frames.amount({"n": told}, "n")) == (count, amount)


def test_what_was_spent_is_what_the_last_state_of_costs_says() -> None:
    states = [{"type": "cost-state", "totalCostUSD": cost} for cost in (1, 2)]
    lines = [json.dumps(each) for each in (*states, {"type": "user", "text": '"cost-state"'})]
    found = _newest([Document(SESSION, f"{SESSION}.jsonl", "\n".join([*lines, '"cost-state"', ""]).encode())], "fresh")
    assert (found.id, found.spent_usd) == (SESSION, 2.0)
