"""Makes the server agree with `contracts/streams.py`. The only module that creates or changes a stream.

`plan` says what would change, `apply` does it. Both are idempotent, and both refuse to weaken the log.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any, TypeVar

from msgspec import Struct

from contracts import streams
from contracts.errors import Invalid, Unavailable
from contracts.streams import ConsumerSpec, Limits
from infra.bus.connection import Bus
from infra.bus.errors import CONSUMER_NOT_FOUND, NOT_CLUSTERED, STREAM_NOT_FOUND, TOO_FEW_SERVERS, ApiError
from infra.bus.log_guard import FORBIDDEN_ON_LOG, refuse_change, refuse_fewer, refuse_weak
from infra.bus.partitions import metadata
from infra.bus.stream_config import consumer_config, kv_config, objects_config, stream_config

T = TypeVar("T")

PAUSE_S = 0.25


class Change(Struct, frozen=True, kw_only=True):
    """One request to the server. `what` is for people."""

    what: str
    request: str
    body: dict[str, Any]


class May(Struct, frozen=True, kw_only=True):
    """What a change needs to be allowed by name."""

    drop: bool = False
    """Limits of the log below what is stored."""
    have_fewer_replicas: bool = False


NOTHING_MORE = May()


class Wanted(Struct, frozen=True, kw_only=True):
    """Everything that should be there."""

    streams: tuple[dict[str, Any], ...]
    consumers: tuple[ConsumerSpec, ...]


def wanted(limits: Limits, nodes: Iterable[str], partitions: int = 1) -> Wanted:
    return Wanted(
        streams=(
            *(_of_a_partition(stream_config(spec), partitions) for spec in streams.all_streams(limits)),
            kv_config(streams.sandboxes_bucket(limits)),
            kv_config(streams.replays_bucket(limits)),
            objects_config(streams.blobs_bucket(limits)),
        ),
        consumers=(*streams.shared_consumers(), *(spec for node in nodes for spec in streams.node_consumers(node))),
    )


def _of_a_partition(config: dict[str, Any], partitions: int) -> dict[str, Any]:
    return config | metadata(partitions) if config["name"] == streams.LOG_STREAM else config


async def plan(bus: Bus, want: Wanted, may: May = NOTHING_MORE) -> list[Change]:
    """What has to be done, in order. `bus` must be the admin's.

    Raises `Invalid` naming the field if it would weaken the log: a field that the server guards it by, retention,
    or, unless they `may`, limits below what is stored and fewer replicas than there are.
    """
    changes = [change for config in want.streams for change in await _plan_stream(bus, config, may)]
    new = {change.body["name"] for change in changes if ".CREATE." in change.request}
    for spec in want.consumers:
        change = await _plan_consumer(bus, spec, stream_is_new=spec.stream in new)
        if change:
            changes.append(change)
    return changes


async def apply(
    bus: Bus, changes: Iterable[Change], *, tell: Callable[[str], None] = lambda _: None, wait_s: float = 0
) -> None:
    """Do what was planned, telling each; servers that are not ready are asked again for `wait_s`.

    Raises `Invalid` or `Unavailable` where there are too few servers for the replicas, else `ApiError` with the
    server's reason.
    """
    for change in changes:
        tell(change.what)
        await until_ready(partial(_do, bus, change), wait_s=wait_s)


async def until_ready(
    call: Callable[[], Awaitable[T]], *, wait_s: float, tell: Callable[[str], None] = lambda _: None
) -> T:
    """Servers that were just started need a moment to agree on who leads. Raises what `call` raised last."""
    deadline = asyncio.get_running_loop().time() + wait_s
    while True:
        try:
            return await call()
        except Unavailable as error:
            if asyncio.get_running_loop().time() > deadline:
                raise
            tell(f"waiting for the servers: {error.message}")
        await asyncio.sleep(PAUSE_S)


async def _do(bus: Bus, change: Change) -> None:
    """Each request may be repeated: to whoever asks for what is there already, the server says yes."""
    try:
        await bus.api(change.request, change.body)
    except ApiError as error:
        replicas = change.body.get("num_replicas", 1)
        if error.number == NOT_CLUSTERED:
            raise Invalid(
                f"{replicas} replicas need {replicas} servers, and this one is no part of a cluster"
            ) from error
        if error.number == TOO_FEW_SERVERS:
            raise Unavailable(f"{replicas} replicas need {replicas} servers: fewer are there") from error
        if error.number != STREAM_NOT_FOUND or ".DELETE." not in change.request:
            raise


async def provision(
    bus: Bus, limits: Limits, nodes: Iterable[str], may: May = NOTHING_MORE, *, wait_s: float = 0
) -> list[Change]:
    """Plan and apply. Returns what was changed. Raises what they raise."""
    want = wanted(limits, nodes)
    changes = await until_ready(lambda: plan(bus, want, may), wait_s=wait_s)
    await apply(bus, changes, wait_s=wait_s)
    return changes


async def _plan_stream(bus: Bus, config: dict[str, Any], may: May) -> list[Change]:
    name = config["name"]
    if name == streams.LOG_STREAM:
        refuse_weak(config)
    try:
        info = await bus.api(f"STREAM.INFO.{name}")
    except ApiError as error:
        if error.number != STREAM_NOT_FOUND:
            raise
        return [Change(what=f"create stream {name}", request=f"STREAM.CREATE.{name}", body=config)]
    present = info["config"]
    different = {key: value for key, value in config.items() if not same(present.get(key), value)}
    if name == streams.LOG_STREAM:
        refuse_change(present, different, info["state"], may.drop)
        different |= {key: None for key in FORBIDDEN_ON_LOG if present.get(key)}
    if not may.have_fewer_replicas:
        refuse_fewer(present, different)
    if not different:
        return []
    if name == streams.VITALS_STREAM and _persists_otherwise(present, config):
        return _anew(config, info["state"])
    told = ", ".join(f"{key} {present.get(key)!r} → {value!r}" for key, value in different.items())
    body = {key: value for key, value in (present | different).items() if value is not None}
    return [Change(what=f"change stream {name}: {told}", request=f"STREAM.UPDATE.{name}", body=body)]


def _persists_otherwise(present: dict[str, Any], config: dict[str, Any]) -> bool:
    """What the server never changes. Only where there is one copy may it persist when it likes."""
    return (present.get("persist_mode") == "async") != (config.get("persist_mode") == "async")


def _anew(config: dict[str, Any], state: dict[str, Any]) -> list[Change]:
    """Of signs of life only: they may be lost. Sequences go on, for whoever remembers one."""
    name = config["name"]
    return [
        Change(what=f"delete stream {name}, to make it anew", request=f"STREAM.DELETE.{name}", body={}),
        Change(
            what=f"create stream {name} with {config['num_replicas']} replicas",
            request=f"STREAM.CREATE.{name}",
            body=config | {"first_seq": state["last_seq"] + 1},
        ),
    ]


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
    different = [key for key, value in config.items() if not same(present.get(key), value)]
    if not different:
        return None
    told = ", ".join(f"{key} {present.get(key)!r} → {config[key]!r}" for key in different)
    return Change(what=f"change consumer {where}: {told}", request=f"CONSUMER.CREATE.{where}", body=body)


def same(present: Any, value: Any) -> bool:
    """Whether a setting is as it should be: what the server adds to one, and what it leaves out, is no difference."""
    if isinstance(value, dict) and isinstance(present, dict):
        return all(same(present.get(key), each) for key, each in value.items())
    return bool(present == value or (not present and not value))
