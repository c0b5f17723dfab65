"""Streams, consumers and buckets as data. `infra/bus/provision.py` makes the server agree with this page."""

from enum import StrEnum
from typing import Literal

from msgspec import Struct

from contracts import subjects

LOG_STREAM = "CLOCHE_LOG"
COMMANDS_STREAM = "CLOCHE_COMMANDS"
VITALS_STREAM = "CLOCHE_VITALS"
ARCHIVE_STREAM = "CLOCHE_ARCHIVE"
SANDBOXES_BUCKET = "cloche_sandboxes"
REPLAYS_BUCKET = "cloche_replays"
BLOBS_BUCKET = "cloche_blobs"

DEDUPE_WINDOW_S = 120.0
MAX_MESSAGE_BYTES = 1024 * 1024
ARCHIVED_MESSAGE_BYTES = MAX_MESSAGE_BYTES + 16 * 1024
"""An imported event has more headers than it had in its own log."""
DELIVERY_LIMIT = 5
"""A command that its handler gave back so often is given up: dead letter."""
CRASH_LIMIT = 100
"""A command that was delivered so often, and never came to an end, takes its handler's process with it."""


class Retention(StrEnum):
    LIMITS = "limits"
    WORK_QUEUE = "workqueue"


class StreamSpec(Struct, frozen=True, kw_only=True):
    name: str
    subjects: tuple[str, ...]
    retention: Retention = Retention.LIMITS
    discard_new: bool = False
    """At the limits: refuse new messages (True) or drop the oldest (False)."""
    max_age_s: float = 0
    max_bytes: int = -1
    max_message_bytes: int = MAX_MESSAGE_BYTES
    max_consumers: int
    dedupe_window_s: float = DEDUPE_WINDOW_S
    deny_delete: bool = False
    deny_purge: bool = False
    allow_direct: bool = True
    async_persist: bool = False
    atomic: bool = False
    """Several messages may be stored together or not at all."""
    repeated_on: str | None = None
    """Where the server repeats each message once it is stored."""
    replicas: int = 1


class ConsumerSpec(Struct, frozen=True, kw_only=True):
    """A durable pull consumer. Only provisioning makes these, so that nobody else needs the right to."""

    stream: str
    durable: str
    filters: tuple[str, ...]
    ack_wait_s: float = 5
    max_deliver: int = 1000
    """Far above CRASH_LIMIT: giving up is ours to say, in a dead letter, never the server's silence. -1 = for ever."""
    max_ack_pending: int = 100_000
    """Messages given back for later count too: at this limit nothing new would be delivered."""


class BucketSpec(Struct, frozen=True, kw_only=True):
    name: str
    history: int = 1
    max_bytes: int = -1
    replicas: int = 1


class Limits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What settings may choose about the store."""

    log_max_age_s: float = 0
    log_max_bytes: int = -1
    blobs_max_bytes: int = -1
    """Of all contents and manifests together: what has no room is told without its content. -1 = as the disk has."""
    replicas: Literal[1, 3, 5] = 1
    """Servers of a cluster that have each message before it is acknowledged: more than half of so many."""


def log(limits: Limits) -> StreamSpec:
    return StreamSpec(
        name=LOG_STREAM,
        subjects=(subjects.LOG,),
        max_age_s=limits.log_max_age_s,
        max_bytes=limits.log_max_bytes,
        max_consumers=100_000,
        deny_delete=True,
        deny_purge=True,
        repeated_on=subjects.LIVE,
        replicas=limits.replicas,
    )


def commands(limits: Limits) -> StreamSpec:
    return StreamSpec(
        name=COMMANDS_STREAM,
        subjects=(subjects.COMMANDS,),
        retention=Retention.WORK_QUEUE,
        discard_new=True,
        max_bytes=1024**3,
        max_consumers=10_000,
        replicas=limits.replicas,
    )


def vitals(limits: Limits) -> StreamSpec:
    return StreamSpec(
        name=VITALS_STREAM,
        subjects=(subjects.VITALS,),
        repeated_on=subjects.LIVE_VITALS,
        max_age_s=3600,
        max_bytes=256 * 1024**2,
        max_consumers=10_000,
        async_persist=True,
        replicas=limits.replicas,
    )


def archive(limits: Limits) -> StreamSpec:
    """Events of other logs, imported for reading. Each has its own sequence in a header."""
    return StreamSpec(
        name=ARCHIVE_STREAM,
        subjects=(subjects.ARCHIVE,),
        max_message_bytes=ARCHIVED_MESSAGE_BYTES,
        max_consumers=1000,
        atomic=True,
        replicas=limits.replicas,
    )


def all_streams(limits: Limits) -> tuple[StreamSpec, ...]:
    return (log(limits), commands(limits), vitals(limits), archive(limits))


def sandboxes_bucket(limits: Limits) -> BucketSpec:
    return BucketSpec(name=SANDBOXES_BUCKET, replicas=limits.replicas)


def replays_bucket(limits: Limits) -> BucketSpec:
    """Paced replays that are under way, so that they go on after a restart."""
    return BucketSpec(name=REPLAYS_BUCKET, replicas=limits.replicas)


def blobs_bucket(limits: Limits) -> BucketSpec:
    return BucketSpec(name=BLOBS_BUCKET, max_bytes=limits.blobs_max_bytes, replicas=limits.replicas)


def create_consumer() -> ConsumerSpec:
    """Shared by every node: whoever has room pulls. While nobody has, it goes from one to the next for an hour."""
    return ConsumerSpec(
        stream=COMMANDS_STREAM,
        durable="spawner-any",
        max_deliver=-1,
        filters=(
            subjects.command_filter(subjects.ANY_NODE, "sandbox"),
            subjects.command_filter(subjects.ANY_NODE, "node"),
        ),
    )


def spawner_consumer(node: str) -> ConsumerSpec:
    return ConsumerSpec(
        stream=COMMANDS_STREAM,
        durable=f"spawner-{node}",
        filters=(subjects.command_filter(node, "sandbox"), subjects.command_filter(node, "node")),
    )


def executor_consumer(node: str) -> ConsumerSpec:
    return ConsumerSpec(
        stream=COMMANDS_STREAM, durable=f"executor-{node}", filters=(subjects.command_filter(node, "command"),)
    )


def egress_consumer(node: str) -> ConsumerSpec:
    return ConsumerSpec(
        stream=COMMANDS_STREAM, durable=f"egress-{node}", filters=(subjects.command_filter(node, "network"),)
    )


def agent_consumer(node: str) -> ConsumerSpec:
    return ConsumerSpec(
        stream=COMMANDS_STREAM,
        durable=f"agent-{node}",
        filters=(subjects.command_filter(node, "agent"),),
        ack_wait_s=2,
    )


def replay_consumer() -> ConsumerSpec:
    """Shared by every replay service."""
    return ConsumerSpec(
        stream=COMMANDS_STREAM,
        durable="replay-any",
        filters=(
            subjects.command_filter(subjects.ANY_NODE, "replay"),
            subjects.command_filter(subjects.ANY_NODE, "audit"),
        ),
    )


def shared_consumers() -> tuple[ConsumerSpec, ...]:
    return (create_consumer(), replay_consumer())


def node_consumers(node: str) -> tuple[ConsumerSpec, ...]:
    return (spawner_consumer(node), executor_consumer(node), egress_consumer(node), agent_consumer(node))
