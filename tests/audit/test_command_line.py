"""`cloche audit`, and what a whole node says of its log."""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from infra.audit.tail import Seen, Tail
from tests.cli.shell import Said, Shell, up_in


@pytest.fixture(scope="module")
def cloche(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    data = tmp_path_factory.mktemp("node")
    anchors = data / "anchors.jsonl"
    (data / "cloche.toml").write_text(f'[audit]\ncheckpoint_s = 0.05\nanchors = ["file:{anchors}"]\n')
    with up_in(data, DOCKER_HOST="unix:///nobody/listens.sock") as shell:
        assert shell("run", "--", "true").code == 0
        yield shell


def lines(said: Said) -> list[dict[str, Any]]:
    assert said.code == 0, said.err
    return [json.loads(line) for line in said.out.splitlines()]


def proven(cloche: Shell, sequence: int) -> dict[str, Any]:
    deadline = time.monotonic() + 30
    while True:
        (state,) = lines(cloche("audit", "--json"))
        if state["checkpoint"] >= sequence:
            return state
        assert time.monotonic() < deadline


def test_the_state_the_keys_and_a_rotation(cloche: Shell) -> None:
    state = proven(cloche, 1)
    assert state["damages"] == []
    (before,) = lines(cloche("audit", "keys", "--json"))
    assert before["current"]
    (rotated,) = lines(cloche("audit", "rotate", "--reason", "yearly", "--json"))
    assert (rotated["key"], rotated["reason"]) == (before["key"], "yearly")
    assert cloche("audit", "keys").out.decode().split() == [before["key"], rotated["next"]]
    keys = lines(cloche("audit", "keys", "--json"))
    proven(cloche, keys[-1]["since_sequence"])
    said = cloche("audit").out.decode()
    assert f"signed by   {rotated['next']} since sequence {keys[-1]['since_sequence']}" in said
    assert "damage      none found" in said
    assert cloche("audit", "rotate").out.decode().strip() not in (before["key"], rotated["next"])


def test_what_is_anchored_is_signed_by_the_keys_of_the_log(cloche: Shell) -> None:
    proven(cloche, 1)
    assert cloche("down").code == 0
    anchored = [json.loads(line) for line in (cloche.data / "anchors.jsonl").read_text().splitlines()]
    assert cloche("up", "--detach").code == 0
    (state,) = lines(cloche("audit", "--json"))
    assert {each["log"] for each in anchored} == {state["log"]}
    assert {each["key"] for each in anchored} <= {each["key"] for each in state["keys"]}
    assert anchored[0]["last_sequence"] < anchored[-1]["last_sequence"]


def test_doctor_has_a_line_for_the_log(cloche: Shell) -> None:
    (found,) = [each for each in lines(cloche("doctor", "--json")) if each["what"] == "log"]
    assert found["ok"]
    assert found["said"].startswith("signed up to sequence ")


def test_damage_is_shown_and_is_a_failure(cloche: Shell) -> None:
    assert cloche("down").code == 0
    # As if so much had been seen once that the log has no more.
    Tail(cloche.data / "audit").append([Seen(1_000_000, 0, bytes(16))])
    assert cloche("up", "--detach").code == 0
    deadline = time.monotonic() + 30
    while (said := cloche("audit")).code == 0:
        assert time.monotonic() < deadline
    (line,) = [line for line in said.out.decode().splitlines() if line.startswith("DAMAGE")]
    assert "to 1000000: truncated: " in line
    doctor = cloche("doctor")
    assert doctor.code == 1
    assert "DAMAGED: sequence" in doctor.out.decode()
    # And it is in the log, for whoever follows that.
    assert b"truncated" in (cloche.data / "up.log").read_bytes()
