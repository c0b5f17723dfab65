"""Which node takes a sandbox, and what becomes of one that none can have."""

from typing import Any

import pytest

from contracts.events.node import VitalsNode
from contracts.nodes import Candidate, Placing, Silence, Want, is_alive, place, want_of
from contracts.spec import Isolation, SandboxSpec

ANYTHING = Want(None, {}, 4096, 2.0)


def _node(name: str = "n1", **has: Any) -> Candidate:
    return Candidate(name, VitalsNode(**{"sandboxes": 0, "max_sandboxes": 2, "tiers": ("local",), **has}))


FULL: dict[str, Any] = {"sandboxes": 2}
DRAINING: dict[str, Any] = {"draining": True}


def _placed(want: Want, *nodes: Candidate, waited_s: float = 0.0) -> tuple[Placing, str, str]:
    step, refusal = place(want, nodes[0], nodes[1:], waited_s=waited_s, patience_s=30)
    return step, refusal.code if refusal else "", refusal.message if refusal else ""


def test_a_node_with_room_takes_it_whatever_the_others_are() -> None:
    assert _placed(ANYTHING, _node(), _node("n2"))[0] is Placing.TAKE


def test_the_only_node_refuses_at_once_when_it_is_full_as_it_always_did() -> None:
    step, code, words = _placed(ANYTHING, _node(**FULL))
    assert (step, code) == (Placing.REFUSE, "SANDBOX_RESOURCE_LIMIT_EXCEEDED")
    assert words == "node 'n1' has no room: see CLOCHE_MAX_SANDBOXES"


@pytest.mark.parametrize("here", [FULL, DRAINING, {"labels": {"zone": "b"}}, {"tiers": ("docker",)}])
def test_what_this_node_cannot_have_is_given_back_while_another_can(here: dict[str, Any]) -> None:
    want = Want(Isolation.LOCAL, {"zone": "a"} if "labels" in here else {}, 4096, 2.0)
    other = _node("n2", labels={"zone": "a"})
    assert _placed(want, _node(**here), other)[0] is Placing.GIVE_BACK
    assert _placed(want, other, _node(**here))[0] is Placing.TAKE


def test_full_nodes_are_waited_for_and_then_it_is_refused_with_what_each_lacks() -> None:
    nodes = (_node(**FULL), _node("n2", **FULL))
    assert _placed(ANYTHING, *nodes, waited_s=29)[0] is Placing.GIVE_BACK
    step, code, words = _placed(ANYTHING, *nodes, waited_s=30)
    assert (step, code) == (Placing.REFUSE, "SANDBOX_RESOURCE_LIMIT_EXCEEDED")
    assert "n1 has no room: 2 of 2 sandboxes; n2 has no room: 2 of 2 sandboxes" in words


def test_one_that_has_room_and_does_not_come_is_waited_for_longer_and_not_for_ever() -> None:
    nodes = (_node(**FULL), _node("n2"))
    assert _placed(ANYTHING, *nodes, waited_s=119)[0] is Placing.GIVE_BACK
    step, code, words = _placed(ANYTHING, *nodes, waited_s=120)
    assert (step, code) == (Placing.REFUSE, "SANDBOX_RESOURCE_LIMIT_EXCEEDED")
    assert words.startswith("no node has taken it for 120 s")
    assert words.endswith("n2 has room")


def test_what_no_node_could_ever_have_is_refused_at_once_with_what_each_lacks() -> None:
    want = Want(Isolation.DOCKER, {"gpu": "yes"}, 9000, 8.0)
    nodes = (
        _node(labels={"gpu": "yes"}, max_memory_mb=8192, max_cpus=4.0, tiers=("docker",)),
        _node("n2", labels={"gpu": "no"}),
        _node("n3", labels={"gpu": "yes"}, tiers=("docker",), draining=True),
    )
    step, code, words = _placed(want, *nodes)
    assert (step, code) == (Placing.REFUSE, "INVALID")
    assert words == (
        "no node can have it: n1 lacks 9000 MB of memory (has 8192), 8 CPUs (has 4); "
        "n2 lacks label gpu=yes (has no), docker sandboxes; n3 is being drained"
    )


def test_memory_and_cpus_count_only_where_a_node_says_what_it_has() -> None:
    busy: dict[str, Any] = {"sandboxes": 1, "memory_mb": 6000, "cpus": 3.0}
    assert _placed(ANYTHING, _node(**busy))[0] is Placing.TAKE
    assert "memory: 6000 of 8192 MB" in _placed(ANYTHING, _node(**busy, max_memory_mb=8192))[2]
    assert "CPUs: 3 of 4" in _placed(ANYTHING, _node(**busy, max_cpus=4.0))[2]


def test_a_specification_says_what_it_wants() -> None:
    want = want_of(SandboxSpec(node_labels={"zone": "a"}))
    assert (want.labels, want.memory_mb, want.isolation) == ({"zone": "a"}, 4096, None)


def test_silence_is_counted_only_while_somebody_listens() -> None:
    silence = Silence()
    silence.listened({"n2": 1}, ["n2", "n3"], 5)
    assert (silence.of("n2"), silence.of("n3")) == (0, 0)
    silence.listened({"n2": 1}, ["n2", "n3"], 5)
    silence.listened({"n2": 2}, ["n2", "n3"], 5)
    assert (silence.of("n2"), silence.of("n3")) == (0, 10)
    assert is_alive(17, 5)
    assert not is_alive(18, 5)
