"""The configuration of the embedded nats-server, as text."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from infra.embedded import store, users
from infra.embedded.users import User
from infra.settings import Durability

MAX_PAYLOAD = 2 * 1024 * 1024
"""A message of 1 MiB plus its headers."""

SEVERAL_REPLIES: dict[str, str] = {"$JS.API.DIRECT.GET.>": "30s", "$JS.API.CONSUMER.MSG.NEXT.>": "2m"}
"""Requests that are answered by more than one message, and how long the server remembers whom to answer."""
ONE_REPLY = (
    "cloche.cmd.>",
    "cloche.log.>",
    "cloche.vitals.>",
    "$KV.>",
    "$O.>",
    "$JS.ACK.>",
    "$JS.API.STREAM.INFO.*",
    "$JS.API.STREAM.MSG.DELETE.*",
    "$JS.API.STREAM.PURGE.*",
    "$JS.API.CONSUMER.INFO.>",
    "$JS.API.CONSUMER.LIST.*",
)


def render(
    *,
    data: Path,
    server_name: str,
    port: int,
    durability: Durability,
    passwords: Mapping[str, str],
    nodes: Iterable[str],
) -> str:
    """JSON, which nats-server reads as its own configuration language."""
    everybody = users.everybody(nodes)
    jetstream: dict[str, Any] = {"store_dir": str(data / "nats" / "store")}
    if durability == Durability.DISK:
        jetstream["sync_interval"] = "always"
    accounts = {users.HUB: _hub(passwords), "SYS": {"users": [_login(users.SYSTEM, passwords)]}}
    accounts |= {user.account: _account(user, passwords) for user in everybody}
    config = {
        "server_name": server_name,
        "host": "127.0.0.1",
        "port": port,
        "max_payload": MAX_PAYLOAD,
        "pid_file": str(store.pid_file(data)),
        "log_file": str(data / "nats" / "server.log"),
        "logfile_size_limit": 16 * 1024 * 1024,
        "logfile_max_num": 3,
        "jetstream": jetstream,
        "system_account": "SYS",
        "accounts": accounts,
    }
    return json.dumps(config, indent=1)


def _login(name: str, passwords: Mapping[str, str]) -> dict[str, Any]:
    return {"user": name, "password": passwords[name]}


def _hub(passwords: Mapping[str, str]) -> dict[str, Any]:
    exports: list[dict[str, Any]] = [{"service": subject} for subject in ONE_REPLY]
    exports += [
        {"service": subject, "response_type": "stream", "threshold": threshold}
        for subject, threshold in SEVERAL_REPLIES.items()
    ]
    exports += [{"stream": subject} for subject in users.HEARD]
    return {"jetstream": "enabled", "users": [_login(users.ADMIN, passwords)], "exports": exports}


def _account(user: User, passwords: Mapping[str, str]) -> dict[str, Any]:
    imports: list[dict[str, Any]] = [
        {"service": {"account": users.HUB, "subject": subject}, "to": users.local(subject)} for subject in user.hub
    ]
    imports += [{"service": {"account": owner.upper(), "subject": subject}} for subject, owner in user.asks.items()]
    imports += [
        {"stream": {"account": users.HUB, "subject": theirs}, "to": ours} for theirs, ours in user.hears.items()
    ]
    exports: list[dict[str, Any]] = [{"service": user.answers}] if user.answers else []
    if user.tells:
        exports.append({"stream": user.tells})
    else:
        imports.append({"stream": {"account": "REPLAY", "subject": users.REPLAYED}})
    login = _login(user.name, passwords) | {"permissions": _permissions(user)}
    return {"users": [login], "imports": imports, "exports": exports}


def _permissions(user: User) -> dict[str, Any]:
    """Say no clearly. The imports alone would make a forbidden subject look like one where nobody listens."""
    publish = [*user.publishes, *user.asks]
    subscribe = [*user.inboxes, *user.hears.values(), users.REPLAYED]
    if user.answers:
        publish.append("_R_.>")
        subscribe.append(user.answers)
    if user.tells:
        publish.append(user.tells)
    return {"publish": {"allow": publish}, "subscribe": {"allow": subscribe}}
