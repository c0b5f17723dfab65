"""A directory with everything that servers which are run elsewhere need, and the clients of them."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from contracts.errors import Invalid
from infra.embedded import secrets
from infra.embedded.accounts import accounts
from infra.embedded.realm import Realm
from infra.embedded.store import write
from infra.nats import server_conf
from infra.nats.addresses import ServerAddress
from infra.nats.certificates import Authority
from infra.nats.server_conf import ACCOUNTS_FILE, ROUTES_FILE, Layout, TlsFiles

ROUTE = "route"
CLIENT_CERTIFICATE = "client"


def own_certificates(place: Path) -> TlsFiles:
    """Those that `certify` makes."""
    tls = place / "tls"
    return TlsFiles(ca=str(tls / "ca.pem"), cert=str(tls / "{server}.pem"), key=str(tls / "{server}-key.pem"))


def certify(directory: Path, servers: Iterable[ServerAddress]) -> list[str]:
    """A private CA, a certificate for each server, and one for clients. Returns the names of those that are new."""
    authority = Authority(directory / "tls")
    made = [server.name for server in servers if authority.ensure(server.name, [server.host])]
    return made + [CLIENT_CERTIFICATE] * authority.ensure(CLIENT_CERTIFICATE, [])


def write_all(
    directory: Path,
    servers: Sequence[ServerAddress],
    layout: Layout,
    nodes: Iterable[str],
    realms: Sequence[Realm] = (Realm(),),
) -> None:
    """Passwords that are there stay; everything else is written anew.

    Raises `Invalid` for credentials that cannot be read, and for one server that is to become several or the other way
    round; `Unavailable` when there is no room.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    _refuse_another_kind(directory, clustered=len(servers) > 1)
    passwords = secrets.ensure(secrets.directory(directory), realms)
    write(directory / ACCOUNTS_FILE, json.dumps(accounts(passwords, nodes, realms), indent=1) + "\n")
    if len(servers) > 1:
        # Not beside those of users: only servers need it.
        password = secrets.ensure_one(directory / f"{ROUTE}.json", ROUTE)
        write(directory / ROUTES_FILE, server_conf.routes(servers, password))
    for server in servers:
        write(directory / f"{server.name}.conf", server_conf.render(server, servers, layout))


def _refuse_another_kind(directory: Path, *, clustered: bool) -> None:
    """Streams do not go from a server alone to a cluster by themselves: who starts it would find an empty log."""
    was_clustered = (directory / ROUTES_FILE).exists()
    if (directory / ACCOUNTS_FILE).exists() and was_clustered != clustered:
        before, after = ("a cluster", "one alone") if was_clustered else ("one alone", "a cluster")
        raise Invalid(
            f"{directory} is for {before}, and what is stored does not become {after} by itself:"
            " write another directory, and bring the store over with `cloche backup` and `cloche restore`"
        )
