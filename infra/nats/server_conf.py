"""The configuration of one server that is run elsewhere, as text in the server's own language."""

import json
from collections.abc import Sequence
from pathlib import PurePath

from msgspec import Struct

from infra.embedded.config import MAX_PAYLOAD
from infra.nats.addresses import ServerAddress
from infra.settings import Durability

ACCOUNTS_FILE = "accounts.conf"
ROUTES_FILE = "routes.conf"
CLUSTER = "cloche"


class TlsFiles(Struct, frozen=True, kw_only=True):
    """As the server finds them. `{server}` stands for its name."""

    ca: str
    cert: str
    key: str

    def of(self, server: str) -> "TlsFiles":
        named = {field: getattr(self, field).replace("{server}", server) for field in self.__struct_fields__}
        return TlsFiles(**named)


class Layout(Struct, frozen=True, kw_only=True):
    """What all servers have in common."""

    store: PurePath
    """Where each keeps its streams. `{server}` stands for its name."""
    durability: Durability = Durability.DISK
    tls: TlsFiles | None = None
    verify_clients: bool = False
    """Whether clients need a certificate of the same CA, beside their password."""
    monitor_port: int = 0
    """For health checks, on loopback. 0 = none."""


def render(server: ServerAddress, servers: Sequence[ServerAddress], layout: Layout) -> str:
    """One of `servers`. Holds no secret: those are in the files that it includes."""
    lines = [
        f"# Written by `cloche nats config`. Passwords are in {ACCOUNTS_FILE}"
        + (f" and {ROUTES_FILE}." if len(servers) > 1 else "."),
        f"server_name: {_text(server.name)}",
        f"listen: {_text(f'{server.listen}:{server.port}')}",
        f"max_payload: {MAX_PAYLOAD}",
    ]
    if server.zone:
        lines.append(f"server_tags: [{_text(f'zone:{server.zone}')}]")
    if layout.monitor_port:
        lines.append(f"http: {_text(f'127.0.0.1:{layout.monitor_port}')}")
    lines += ["", *_jetstream(server, layout, clustered=len(servers) > 1)]
    if layout.tls:
        lines += ["", *_tls(layout.tls.of(server.name), verify=layout.verify_clients)]
    if len(servers) > 1:
        lines += ["", *_cluster(server, layout)]
    return "\n".join([*lines, "", f"include {_text(f'./{ACCOUNTS_FILE}')}", ""])


def routes(servers: Sequence[ServerAddress], password: str) -> str:
    """The same for every server: it leaves its own route out by itself."""
    urls = [f"nats-route://route:{password}@{each.host}:{each.route_port}" for each in servers]
    return json.dumps({"authorization": {"user": "route", "password": password}, "routes": urls}, indent=1) + "\n"


def _jetstream(server: ServerAddress, layout: Layout, *, clustered: bool) -> list[str]:
    """A server that becomes part of a cluster deletes every stream that it had alone: so it never sees those."""
    place = PurePath(str(layout.store).replace("{server}", server.name))
    lines = [f"  store_dir: {_text(str(place / 'cluster' if clustered else place))}"]
    if layout.durability == Durability.DISK:
        lines += ["  # Nothing is acknowledged before the disk has it.", "  sync_interval: always"]
    if server.zone:
        lines.append('  unique_tag: "zone:"')
    return ["jetstream {", *lines, "}"]


def _tls(files: TlsFiles, *, verify: bool) -> list[str]:
    lines = [f"  ca_file: {_text(files.ca)}", f"  cert_file: {_text(files.cert)}", f"  key_file: {_text(files.key)}"]
    return ["tls {", *lines, *(["  verify: true"] if verify else []), "}"]


def _cluster(server: ServerAddress, layout: Layout) -> list[str]:
    lines = [
        f"  name: {_text(CLUSTER)}",
        f"  listen: {_text(f'{server.listen}:{server.route_port}')}",
        "  # Clients know the addresses that they were given, and trust no others.",
        "  no_advertise: true",
        "  # A server that was cut off is taken for gone, and found again, in seconds.",
        '  ping_interval: "3s"',
        "  ping_max: 2",
    ]
    if layout.tls:
        lines += [f"  {line}" for line in _tls(layout.tls.of(server.name), verify=True)]
    return ["cluster {", *lines, f"  include {_text(f'./{ROUTES_FILE}')}", "}"]


def _text(value: str) -> str:
    return json.dumps(value)
