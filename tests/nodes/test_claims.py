"""Whose a name is, by what the log says."""

import datetime

import pytest

from contracts import codec
from contracts.events import node as facts
from contracts.message import Event, Fact
from contracts.node_names import ANYBODY, Claim, claim_on, held_by_another
from contracts.nodes import NodeRecord, Standing, fold_node
from contracts.registry import tag_of

TIME = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
OLD = facts.NodeJoined(node="n1")
A = facts.NodeJoined(node="n1", identity="a")
B = facts.NodeJoined(node="n1", identity="b")
LOST = facts.NodeLost(node="n1", reason="burnt", noticed_by="n2")
RETURNED = facts.NodeReturned(node="n1")
DRAINING = facts.NodeDraining(node="n1")
DRAINED = facts.NodeDrained(node="n1")
RESUMED = facts.NodeResumed(node="n1")


def _told(*told: Fact) -> NodeRecord:
    record = NodeRecord(node="n1")
    for sequence, fact in enumerate(told, start=1):
        event = Event(id=f"e{sequence}", source="spawner/n1", type=tag_of(fact), time=TIME, sandboxid="_", data=fact)
        record = fold_node(record, sequence, codec.decode_head(codec.encode(event)))
    return record


@pytest.mark.parametrize(
    ("told", "take_over", "claim"),
    [
        ((), "", Claim.FREE),
        ((OLD,), "", Claim.FREE),
        ((A,), "", Claim.OURS),
        ((B,), "", Claim.ANOTHERS),
        ((B,), "b", Claim.FREE),
        ((B,), ANYBODY, Claim.FREE),
        ((B,), "c", Claim.ANOTHERS),
        ((B, LOST), "", Claim.FREE),
        ((B, LOST, RETURNED), "", Claim.ANOTHERS),
        ((B, DRAINING, DRAINED), "", Claim.ANOTHERS),
        ((B, DRAINING, RESUMED), "", Claim.ANOTHERS),
        ((B, LOST, A), "", Claim.OURS),
        ((A, LOST, B), "", Claim.ANOTHERS),
        ((A, LOST), "", Claim.OURS),
    ],
)
def test_a_name_is_whose_the_log_says_until_it_is_lost_or_taken_over(
    told: tuple[Fact, ...], take_over: str, claim: Claim
) -> None:
    assert claim_on(_told(*told), "a", take_over) is claim


def test_a_host_without_an_identity_has_no_name() -> None:
    assert claim_on(_told(OLD), "", "") is Claim.FREE
    assert claim_on(_told(A), "", "") is Claim.ANOTHERS


@pytest.mark.parametrize("before", [(OLD, DRAINING), (OLD, DRAINING, DRAINED), (B, DRAINING)])
def test_a_node_that_is_drained_stays_so_when_its_name_is_claimed(before: tuple[Fact, ...]) -> None:
    claimed = _told(*before, A)
    assert (claimed.standing, claimed.since) == (_told(*before).standing, _told(*before).since)
    assert (claimed.identity, claimed.sequence) == ("a", len(before) + 1)


def test_a_lost_name_is_joined_anew_by_whoever_claims_it() -> None:
    assert _told(B, LOST, A) == NodeRecord(
        node="n1", standing=Standing.JOINED, sequence=3, since=3, identity="a", named=3
    )


def test_the_refusal_names_every_way_out() -> None:
    words = held_by_another(_told(B)).message
    assert "CLOCHE_NODE" in words
    assert "cloche nodes lost n1" in words
    assert "CLOCHE_TAKE_OVER=b" in words
