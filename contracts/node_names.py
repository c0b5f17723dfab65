"""Which host may go by the name of a node. Pure."""

from enum import StrEnum

from contracts.errors import NodeNameTaken
from contracts.nodes import NodeRecord, Standing

ANYBODY = "*"
"""Whoever has the name may be succeeded: for a host that has the store itself."""


class Claim(StrEnum):
    OURS = "ours"
    FREE = "free"
    """It is for whoever says so first in the log."""
    ANOTHERS = "anothers"


def claim_on(record: NodeRecord, identity: str, take_over: str) -> Claim:
    """`take_over`: the identity of a host that is gone for good, as a person says."""
    if identity and record.identity == identity:
        return Claim.OURS
    if not record.identity or record.standing is Standing.LOST or take_over in (record.identity, ANYBODY):
        return Claim.FREE
    return Claim.ANOTHERS


def held_by_another(record: NodeRecord) -> NodeNameTaken:
    """What a host that finds its name taken says, and what a person can do about it."""
    node, identity = record.node, record.identity
    return NodeNameTaken(
        f"the name {node!r} belongs to another host, identity {identity}: two with one name would have each sandbox "
        f"twice. Choose another name for this one with CLOCHE_NODE. If the other is gone for good, or its data "
        f"directory is: `cloche nodes lost {node}` while another node is there, or start this one with "
        f"CLOCHE_TAKE_OVER={identity}"
    )


def shown_by_another(node: str) -> NodeNameTaken:
    return NodeNameTaken(
        f"another host shows signs of life as node {node!r}, and has no identity in this log: choose another name for "
        f"this one with CLOCHE_NODE, or end the other"
    )
