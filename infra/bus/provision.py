"""Makes the server agree with `contracts/streams.py`. The only module that creates or changes a stream.

`plan` says what would change, `apply` does it. Both are idempotent, and both refuse to weaken the log.
"""

from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Struct

from contracts import streams
from contracts.errors import Invalid
from contracts.streams import ConsumerSpec, Limits
from infra.bus.connection import Bus
from infra.bus.errors import CONSUMER_NOT_FOUND, STREAM_NOT_FOUND, ApiError
from infra.bus.stream_config import consumer_config, kv_config, objects_config, stream_config

FORBIDDEN_ON_LOG = (
    "allow_rollup_hdrs", "allow_msg_ttl", "allow_msg_schedules", "allow_msg_counter", "allow_atomic", "sealed",
    "mirror", "sources", "subject_transform", "subject_delete_marker_ttl", "no_ack",
)  # fmt: skip
"""Each lets somebody erase or forge history, or makes an acknowledgement mean less."""
REQUIRED_ON_LOG = {"deny_delete": True, "deny_purge": True, "allow_direct": True, "storage": "file"}


class Change(Struct, frozen=True, kw_only=True):
    """One request to the server. `what` is for people."""

    what: str
    request: str
    body: dict[str, Any]


class Wanted(Struct, frozen=True, kw_only=True):
    """Everything that should be there."""

    streams: tuple[dict[str, Any], ...]
    consumers: tuple[ConsumerSpec, ...]


def wanted(limits: Limits, nodes: Iterable[str]) -> Wanted:
    return Wanted(
        streams=(
            *(stream_config(spec) for spec in streams.all_streams(limits)),
            kv_config(streams.sandboxes_bucket(limits)),
            objects_config(streams.blobs_bucket(limits)),
        ),
        consumers=(streams.create_consumer(), *(spec for node in nodes for spec in streams.node_consumers(node))),
    )


async def plan(bus: Bus, want: Wanted, *, may_drop: bool = False) -> list[Change]:
    """What has to be done, in order. `bus` must be the admin's.

    Raises `Invalid` naming the field if it would weaken the log: a field that the server guards it by, retention,
    or (unless `may_drop`) limits below what is stored.
    """
    changes = [change for config in want.streams if (change := await _plan_stream(bus, config, may_drop))]
    new = {change.body["name"] for change in changes if ".CREATE." in change.request}
    for spec in want.consumers:
        change = await _plan_consumer(bus, spec, stream_is_new=spec.stream in new)
        if change:
            changes.append(change)
    return changes


async def apply(bus: Bus, changes: Iterable[Change], *, tell: Callable[[str], None] = lambda _: None) -> None:
    """Do what was planned, telling each. Raises `ApiError` with the server's reason."""
    for change in changes:
        tell(change.what)
        await bus.api(change.request, change.body)


async def provision(bus: Bus, limits: Limits, nodes: Iterable[str], *, may_drop: bool = False) -> list[Change]:
    """Plan and apply. Returns what was changed. Raises what they raise."""
    changes = await plan(bus, wanted(limits, nodes), may_drop=may_drop)
    await apply(bus, changes)
    return changes


async def _plan_stream(bus: Bus, config: dict[str, Any], may_drop: bool) -> Change | None:
    name = config["name"]
    if name == streams.LOG_STREAM:
        refuse_weak(config)
    try:
        info = await bus.api(f"STREAM.INFO.{name}")
    except ApiError as error:
        if error.number != STREAM_NOT_FOUND:
            raise
        return Change(what=f"create stream {name}", request=f"STREAM.CREATE.{name}", body=config)
    present = info["config"]
    different = {key: value for key, value in config.items() if not _same(present.get(key), value)}
    if name == streams.LOG_STREAM:
        _refuse_change(present, different, info["state"], may_drop)
        different |= {key: None for key in FORBIDDEN_ON_LOG if present.get(key)}
    if not different:
        return None
    told = ", ".join(f"{key} {present.get(key)!r} → {value!r}" for key, value in different.items())
    body = {key: value for key, value in (present | different).items() if value is not None}
    return Change(what=f"change stream {name}: {told}", request=f"STREAM.UPDATE.{name}", body=body)


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


def _refuse_change(present: dict[str, Any], different: dict[str, Any], state: dict[str, Any], may_drop: bool) -> None:
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


async def _plan_consumer(bus: Bus, spec: ConsumerSpec, *, stream_is_new: bool) -> Change | None:
    config = consumer_config(spec)
    where = f"{spec.stream}.{spec.durable}"
    body = {"stream_name": spec.stream, "config": config, "action": ""}
    created = Change(what=f"create consumer {where}", request=f"CONSUMER.CREATE.{where}", body=body)
    if stream_is_new:
        return created
    try:
        present = (await bus.api(f"CONSUMER.INFO.{where}"))["config"]
    except ApiError as error:
        if error.number not in (CONSUMER_NOT_FOUND, STREAM_NOT_FOUND):
            raise
        return created
    different = [key for key, value in config.items() if not _same(present.get(key), value)]
    if not different:
        return None
    told = ", ".join(f"{key} {present.get(key)!r} → {config[key]!r}" for key in different)
    return Change(what=f"change consumer {where}: {told}", request=f"CONSUMER.CREATE.{where}", body=body)


def _same(present: Any, value: Any) -> bool:
    if isinstance(value, dict) and isinstance(present, dict):
        return all(_same(present.get(key), each) for key, each in value.items())
    return bool(present == value or (not present and not value))
