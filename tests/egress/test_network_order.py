"""What `sandbox.network` may change, and when."""

import datetime

import msgspec
import pytest

from contracts.commands.sandbox import ChangeNetwork
from contracts.errors import Conflict, Invalid, SandboxInvalidState
from contracts.spec import Network, NetworkMode, SandboxSpec, merge_network
from contracts.state import SandboxState, Status
from services.spawner.decide import Decision, Step, decide

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def changed(current: Network, **given: object) -> Network:
    return merge_network(current, msgspec.json.encode(given))


def decided(status: Status, *, command: str = "c-2", node: str = "n") -> Decision:
    state = SandboxState(
        sandbox="sb",
        status=status,
        node="n",
        isolation="local",  # type: ignore[arg-type]
        spec=SandboxSpec(),
        created=True,
        created_at=NOW,
        last_event_at=NOW,
        first_sequence=1,
        lifecycle_sequence=3,
        applied_sequence=3,
        obeyed=("c-1",),
    )
    return decide(state, ChangeNetwork(), sandbox="sb", command=command, node=node, now=NOW)


def test_what_is_left_out_stays_and_lists_are_replaced() -> None:
    now = Network(allowed_hosts=("one.example", "two.example"), allowed_ports=(443,), ask_timeout_ms=5000)
    assert changed(now, allowed_hosts=["three.example"]) == Network(
        allowed_hosts=("three.example",), allowed_ports=(443,), ask_timeout_ms=5000
    )
    assert changed(now, allowed_hosts=[]).allowed_hosts == ()
    assert changed(now) == now


def test_full_is_neither_entered_nor_left() -> None:
    for before, after in (("restricted", "full"), ("none", "full"), ("full", "restricted"), ("full", "none")):
        with pytest.raises(Invalid, match="another sandbox"):
            changed(Network(mode=NetworkMode(before)), mode=after)
    assert changed(Network(mode=NetworkMode.NONE), mode="restricted").mode is NetworkMode.RESTRICTED


@pytest.mark.parametrize(
    ("given", "path"),
    [
        (b'{"hosts":[]}', "unknown field `hosts`"),
        (b'{"allowed_ports":[80,70000]}', r"allowed_ports\[1\]|allowed_ports\[\.\.\.\]"),
        (b'{"mode":"open"}', r"\$\.mode"),
        (b'{"mode":null}', r"\$\.mode"),
        (b"[]", "network"),
        (b"{", "network"),
        (b'{"a":' + b"[" * 5000, "network"),
    ],
)
def test_what_is_wrong_is_refused_with_its_place(given: bytes, path: str) -> None:
    with pytest.raises(Invalid, match=path):
        merge_network(Network(), given)


@pytest.mark.parametrize("status", [Status.RUNNING, Status.PAUSED, Status.STOPPED])
def test_it_may_be_changed_whether_it_runs_or_not_and_once_for_each_order(status: Status) -> None:
    assert decided(status) == Decision(Step.CHANGE_NETWORK)
    assert decided(status, command="c-1") == Decision(Step.NOTHING)


@pytest.mark.parametrize(
    ("status", "error"),
    [(Status.CREATING, Conflict), (Status.FAILED, SandboxInvalidState), (Status.REMOVED, SandboxInvalidState)],
)
def test_elsewhere_it_is_refused(status: Status, error: type[Exception]) -> None:
    assert isinstance(decided(status).refusal, error)
    assert isinstance(decided(Status.RUNNING, node="other").refusal, SandboxInvalidState)
