"""Stored histories fold to what they always did."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from contracts import registry
from contracts.codec import decode_head
from tests.replay.golden_histories import HISTORIES, check, compare, expected_path, fold, history

NAMES = sorted(path.stem for path in HISTORIES.glob("*.jsonl"))
DAMAGED = HISTORIES / "damaged" / "commands.jsonl"


def expected(name: str) -> Any:
    return msgspec.json.decode(expected_path(HISTORIES / f"{name}.jsonl").read_bytes())


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


@pytest.mark.parametrize("name", ["commands", "running"])
def test_a_fold_that_leaves_what_has_ended_among_what_runs_is_noticed(name: str) -> None:
    folded = fold(HISTORIES / f"{name}.jsonl")
    ended = {command.exec: command for command in folded.state.recent}
    left = replace(folded, state=replace(folded.state, running={**folded.state.running, **ended}))
    with pytest.raises(AssertionError, match=rf"{name}\.state\.running: "):
        compare(expected(name), left, name)


def test_a_fold_that_forgets_what_still_runs_is_noticed() -> None:
    folded = fold(HISTORIES / "running.jsonl")
    assert [command.argv[-1] for command in folded.state.running.values()] == ["cat", "echo begun; sleep 3600"]
    assert len(folded.state.recent) == 1
    forgetful = replace(folded, state=replace(folded.state, running={}))
    with pytest.raises(AssertionError, match=r"running\.state\.running: \[\] instead of"):
        compare(expected("running"), forgetful, "running")


def test_a_field_that_older_histories_do_not_have_is_no_difference() -> None:
    folded = fold(HISTORIES / "commands.jsonl")
    older = expected("commands")
    del older["state"]["approvals"]
    compare(older, folded, "commands")
    with pytest.raises(AssertionError, match=r"commands\.state\.gone is gone"):
        compare({"state": {"gone": 1}}, folded, "commands")


def test_histories_tell_of_every_family() -> None:
    lines = (line for name in NAMES for line in history(HISTORIES / f"{name}.jsonl"))
    told = {decode_head(bytes(line.event)).type.partition(".")[0] for line in lines}
    # What is told of nodes is told of no sandbox, and has a fold of its own.
    assert {tag.partition(".")[0] for tag in registry.EVENTS} - {"node"} <= told
