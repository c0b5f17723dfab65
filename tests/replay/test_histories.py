"""Stored histories fold to what they always did."""

from pathlib import Path

import pytest

from contracts import registry
from contracts.codec import decode_head
from tests.replay.golden_histories import HISTORIES, check, expected_path, history

NAMES = sorted(path.stem for path in HISTORIES.glob("*.jsonl"))
DAMAGED = HISTORIES / "damaged" / "commands.jsonl"


@pytest.mark.parametrize("name", NAMES)
def test_a_history_folds_to_the_same_as_ever(name: str) -> None:
    path = HISTORIES / f"{name}.jsonl"
    check(path, expected_path(path))


def test_a_damaged_history_does_not() -> None:
    """The same session without one of its events."""
    with pytest.raises(AssertionError, match=r"commands\.state\."):
        check(DAMAGED, HISTORIES / "commands.folded.json")


def test_one_changed_character_is_noticed(tmp_path: Path) -> None:
    whole = (HISTORIES / "agent.jsonl").read_bytes()
    changed = tmp_path / "agent.jsonl"
    changed.write_bytes(whole.replace(b'"cost_usd":0.25', b'"cost_usd":0.26'))
    with pytest.raises(AssertionError, match=r"agent\.state\.cost_usd: 0\.26 instead of 0\.25"):
        check(changed, HISTORIES / "agent.folded.json")


def test_histories_tell_of_every_family() -> None:
    lines = (line for name in NAMES for line in history(HISTORIES / f"{name}.jsonl"))
    told = {decode_head(bytes(line.event)).type.partition(".")[0] for line in lines}
    # What is told of nodes is told of no sandbox, and has a fold of its own.
    assert {tag.partition(".")[0] for tag in registry.EVENTS} - {"node"} <= told
