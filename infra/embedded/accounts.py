"""The accounts of the bus's servers: who logs in, and what each may publish, ask and hear."""

from collections.abc import Iterable, Mapping
from typing import Any

from infra.embedded import users
from infra.embedded.realm import Realm
from infra.embedded.users import User
from infra.settings import Tenant

SEVERAL_REPLIES: dict[str, str] = {"$JS.API.DIRECT.GET.>": "30s", "$JS.API.CONSUMER.MSG.NEXT.>": "2m"}
"""Requests that are answered by more than one message, and how long the server remembers whom to answer."""
ONE_REPLY = (
    "cloche.cmd.>",
    "cloche.log.>",
    "cloche.vitals.>",
    "cloche.archive.>",
    "$KV.>",
    "$O.>",
    "$JS.ACK.>",
    "$JS.API.STREAM.INFO.*",
    "$JS.API.STREAM.MSG.GET.*",
    "$JS.API.STREAM.MSG.DELETE.*",
    "$JS.API.STREAM.PURGE.*",
    "$JS.API.CONSUMER.INFO.>",
    "$JS.API.CONSUMER.LIST.*",
)


def accounts(
    passwords: Mapping[str, str], nodes: Iterable[str], realms: Iterable[Realm] = (Realm(),)
) -> dict[str, Any]:
    """The part of a server's configuration that every server of a cluster shares. `passwords` are by login."""
    nodes = tuple(nodes)
    made: dict[str, Any] = {"SYS": {"users": [_login(users.SYSTEM, passwords)]}}
    for realm in realms:
        made[users.hub_name(realm.name)] = _hub(realm, passwords)
        everybody = users.everybody(nodes, realm.name) if realm.has_users else []
        made |= {user.account: _account(user, passwords) | _bounds(realm.limits) for user in everybody}
    return {"system_account": "SYS", "accounts": made}


def _login(name: str, passwords: Mapping[str, str]) -> dict[str, Any]:
    return {"user": name, "password": passwords[name]}


def _hub(realm: Realm, passwords: Mapping[str, str]) -> dict[str, Any]:
    exports: list[dict[str, Any]] = [{"service": subject} for subject in ONE_REPLY]
    exports += [
        {"service": subject, "response_type": "stream", "threshold": threshold}
        for subject, threshold in SEVERAL_REPLIES.items()
    ]
    exports += [{"stream": subject} for subject in users.HEARD]
    admin = _login(users.login_name(realm.name, users.ADMIN), passwords)
    exported = exports if realm.has_users else []
    return {"jetstream": _store(realm.limits), "users": [admin], "exports": exported} | _bounds(realm.limits)


def _bounds(limits: Tenant) -> dict[str, Any]:
    """Of one account. What one tenant takes of a server's connections and memory the others do not have."""
    bounds = {"max_connections": limits.max_connections, "max_subscriptions": limits.max_subscriptions}
    given = {name: bound for name, bound in bounds.items() if bound is not None}
    return {"limits": given} if given else {}


def _store(limits: Tenant) -> str | dict[str, int]:
    bounds = {
        "max_memory": limits.max_memory_mb and limits.max_memory_mb << 20,
        "max_file": limits.max_disk_mb and limits.max_disk_mb << 20,
        "max_streams": limits.max_streams,
        "max_consumers": limits.max_consumers,
    }
    return {name: bound for name, bound in bounds.items() if bound is not None} or "enabled"


def _account(user: User, passwords: Mapping[str, str]) -> dict[str, Any]:
    hub, realm = users.hub_name(user.realm), user.realm
    imports: list[dict[str, Any]] = [
        {"service": {"account": hub, "subject": subject}, "to": users.local(subject)} for subject in user.hub
    ]
    imports += [
        {"service": {"account": users.account_name(realm, owner), "subject": subject}}
        for subject, owner in user.asks.items()
    ]
    imports += [{"stream": {"account": hub, "subject": theirs}, "to": ours} for theirs, ours in user.hears.items()]
    exports: list[dict[str, Any]] = [{"service": user.answers}] if user.answers else []
    if user.tells:
        exports.append({"stream": user.tells})
    else:
        teller = users.account_name(realm, "replay")
        imports.append({"stream": {"account": teller, "subject": users.REPLAYED}})
    login = _login(user.login, passwords) | {"permissions": _permissions(user)}
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
