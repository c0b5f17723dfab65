"""What may not be done to the log, and to copies of streams, whoever asks for it."""

from typing import Any

from contracts.errors import Invalid

FORBIDDEN_ON_LOG = (
    "allow_rollup_hdrs", "allow_msg_ttl", "allow_msg_schedules", "allow_msg_counter", "allow_atomic", "sealed",
    "mirror", "sources", "subject_transform", "subject_delete_marker_ttl", "no_ack",
)  # fmt: skip
"""Each lets somebody erase or forge history, or makes an acknowledgement mean less."""
REQUIRED_ON_LOG = {"deny_delete": True, "deny_purge": True, "allow_direct": True, "storage": "file"}


def refuse_weak(config: dict[str, Any]) -> None:
    """Raises `Invalid` if this is no configuration for the log."""
    for field, value in REQUIRED_ON_LOG.items():
        if config.get(field) != value:
            raise Invalid(f"{config['name']}: {field} must be {value!r}: the log must not be weakened", field=field)
    for field in FORBIDDEN_ON_LOG:
        if config.get(field):
            raise Invalid(f"{config['name']}: {field} must not be set: the log must not be weakened", field=field)
    if config.get("retention", "limits") != "limits":
        raise Invalid(f"{config['name']}: retention must be 'limits': reading must not remove", field="retention")


def refuse_change(present: dict[str, Any], different: dict[str, Any], state: dict[str, Any], may_drop: bool) -> None:
    for field in ("retention", "storage"):
        if field in different:
            raise Invalid(f"{present['name']}: {field} of a log cannot be changed", field=field)
    if set(present["subjects"]) - set(different.get("subjects", present["subjects"])):
        raise Invalid(f"{present['name']}: subjects must not be taken away", field="subjects")
    if not may_drop:
        _refuse_drop(present, different, state)


def _refuse_drop(present: dict[str, Any], different: dict[str, Any], state: dict[str, Any]) -> None:
    limit = different.get("max_bytes", -1)
    if 0 <= limit < state["bytes"]:
        raise Invalid(f"{present['name']}: max_bytes {limit} is below the {state['bytes']} stored", field="max_bytes")
    age = different.get("max_age", 0)
    if age and state["messages"] and (not present.get("max_age") or age < present["max_age"]):
        raise Invalid(f"{present['name']}: a shorter max_age would remove what is stored", field="max_age")


def refuse_fewer(present: dict[str, Any], different: dict[str, Any]) -> None:
    there, asked = present.get("num_replicas", 1), different.get("num_replicas")
    if asked is not None and asked < there:
        name = present["name"]
        raise Invalid(
            f"{name} has {there} replicas, and {asked} are asked for by `limits.replicas` or CLOCHE_REPLICAS:"
            " fewer have to be allowed by --fewer-replicas",
            field="num_replicas",
        )
