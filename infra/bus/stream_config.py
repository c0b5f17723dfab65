"""Streams, consumers and buckets in the server's own words.

As plain JSON and not by nats-py's classes, which do not know every field and drop what they do not know.
"""

from typing import Any

from contracts import subjects
from contracts.streams import BucketSpec, ConsumerSpec, StreamSpec

SECOND = 1_000_000_000


def stream_config(spec: StreamSpec) -> dict[str, Any]:
    config: dict[str, Any] = {
        "name": spec.name,
        "subjects": list(spec.subjects),
        "retention": str(spec.retention),
        "storage": "file",
        "discard": "new" if spec.discard_new else "old",
        "max_age": int(spec.max_age_s * SECOND),
        "max_bytes": spec.max_bytes,
        "max_msg_size": spec.max_message_bytes,
        "max_consumers": spec.max_consumers,
        "duplicate_window": int(spec.dedupe_window_s * SECOND),
        "num_replicas": spec.replicas,
        "deny_delete": spec.deny_delete,
        "deny_purge": spec.deny_purge,
        "allow_direct": spec.allow_direct,
    }
    if spec.atomic:
        config["allow_atomic"] = True
    # The server lets only a single copy persist when it likes.
    if spec.async_persist and spec.replicas == 1:
        config["persist_mode"] = "async"
    if spec.repeated_on is not None:
        config["republish"] = {"src": spec.subjects[0], "dest": spec.repeated_on, "headers_only": False}
    return config


def consumer_config(spec: ConsumerSpec) -> dict[str, Any]:
    one = len(spec.filters) == 1
    filters: dict[str, Any] = {"filter_subject": spec.filters[0]} if one else {"filter_subjects": list(spec.filters)}
    return {
        "name": spec.durable,
        "durable_name": spec.durable,
        "deliver_policy": "all",
        "ack_policy": "explicit",
        "ack_wait": int(spec.ack_wait_s * SECOND),
        "max_deliver": spec.max_deliver,
        "max_ack_pending": spec.max_ack_pending,
        **filters,
    }


def kv_config(spec: BucketSpec) -> dict[str, Any]:
    return {
        **_bucket_config(spec),
        "name": f"KV_{spec.name}",
        "subjects": [f"$KV.{spec.name}.>"],
        "max_msgs_per_subject": spec.history,
        "deny_delete": True,
        "republish": {"src": f"$KV.{spec.name}.>", "dest": kv_told(spec.name), "headers_only": True},
    }


def kv_told(bucket: str) -> str:
    """Where the server tells that a key has been stored."""
    return f"{subjects.ROOT}.kv.{bucket}.>"


def objects_config(spec: BucketSpec) -> dict[str, Any]:
    return {
        **_bucket_config(spec),
        "name": f"OBJ_{spec.name}",
        "subjects": [f"$O.{spec.name}.C.>", f"$O.{spec.name}.M.>"],
        "allow_atomic": True,
    }


def _bucket_config(spec: BucketSpec) -> dict[str, Any]:
    return {
        "retention": "limits",
        "storage": "file",
        "discard": "new",
        "max_bytes": spec.max_bytes,
        "num_replicas": spec.replicas,
        "allow_rollup_hdrs": True,
        "allow_direct": True,
    }
