"""What a person may choose, with its bounds and defaults."""

import ipaddress
import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct

from contracts.agents import Agents
from contracts.audits import Audit
from contracts.guardian import Guardian
from contracts.hostnames import address_of, fold
from contracts.ids import END, Token
from contracts.partitions import MOST as MOST_PARTITIONS
from contracts.quotas import Quotas
from contracts.replays import Replaying
from contracts.spec import NodeLabels, SandboxSpec
from contracts.streams import Limits

MOST_SANDBOXES = 10_000
REALM_PATTERN = r"^([A-Za-z0-9][A-Za-z0-9_-]{0,39})?" + END
LIKE_A_PARTITION = re.compile(r"(.*-)?p[0-9]+")


class Durability(StrEnum):
    """What an acknowledged message survives."""

    DISK = "disk"
    """The machine loses power: the server calls fsync before it acknowledges."""
    PROCESS = "process"
    """Any process dies, the machine does not."""


class Keeping(StrEnum):
    """Who sees to it that there is a keeper."""

    LAUNCH = "launch"
    """The executor: it starts one that outlives it, where none answers."""
    ADOPT = "adopt"
    """Somebody else, such as a container of its own: the executor waits for it, and never starts one."""


class Intervals(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How often the things happen that nothing else triggers."""

    sweep_s: Annotated[float, Meta(ge=0.1, le=3600)] = 5.0
    health_s: Annotated[float, Meta(ge=0.1, le=3600)] = 30.0
    """Between two looks at a sandbox. What dies is noticed at once; this is for what nobody tells of."""
    leftovers_s: Annotated[float, Meta(ge=0.1, le=3600)] = 60.0


class Pool(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Sandboxes that are kept ready, so that creating one of the same shape takes a moment."""

    size: Annotated[int, Meta(ge=0, le=100)] = 1
    """Of each shape. 0 = none."""
    specs: Annotated[tuple[dict[str, Any], ...], Meta(max_length=20)] = ()
    """Beside the default specification: each is laid over it."""
    after_s: Annotated[float, Meta(ge=0, le=3600)] = 0.2
    """Of quiet before one is made: what somebody waits for comes first."""


class Files(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the files of workspaces are followed."""

    quiet_ms: Annotated[int, Meta(ge=0, le=60_000)] = 100
    """Changes are told once nothing has changed for so long: of each file only what it is then."""
    longest_ms: Annotated[int, Meta(ge=0, le=600_000)] = 1000
    """They are told after so long in any case."""
    max_diff_bytes: Annotated[int, Meta(ge=0, le=65_536)] = 65_536
    """Of a text that has a diff in its event."""
    max_blob_bytes: Annotated[int, Meta(ge=0, le=1 << 34)] = 64 << 20
    """Of a file whose content is kept. Of a larger one only that it is there, so it cannot be restored."""
    rescan_s: Annotated[float, Meta(ge=0.1, le=3600)] = 10.0
    """Between looks at the whole of a workspace that the kernel has no watches left for."""
    max_entries: Annotated[int, Meta(ge=1, le=100_000_000)] = 1_000_000
    """Of a workspace that are followed; each takes about a kilobyte of memory. What is beyond that is not told."""
    look_s: Annotated[float, Meta(ge=0.1, le=86_400)] = 300.0
    """Between looks at the whole of any workspace: some writes the kernel gives no notice of."""
    store_burst_bytes: Annotated[int, Meta(ge=0, le=1 << 40)] = 2 << 30
    """Of a workspace that may change in one go and be kept at once; more waits, see `store_bytes_per_s`."""
    store_bytes_per_s: Annotated[int, Meta(ge=1024, le=1 << 40)] = 256 << 10
    """Beyond that burst so much is kept, of contents and events, as long as nobody asks: a flush takes everything."""
    manifest_s: Annotated[float, Meta(ge=0.1, le=86_400)] = 3600.0
    """Between manifests of a workspace while anything in it changes; many changes bring one sooner."""


class Egress(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The way out of sandboxes whose network is restricted, as far as the node's operator decides."""

    networks: Annotated[tuple[str, ...], Meta(max_length=1000)] = ()
    """Networks (CIDR) that are not public and may be reached all the same, where a sandbox may reach the host."""
    addresses: Annotated[dict[str, tuple[str, ...]], Meta(max_length=10_000)] = {}
    """Names with fixed addresses, asked before DNS."""
    ca_file: Path | None = None
    """Certificates that are trusted besides the system's, for hosts that are given a secret."""
    record_paths: bool = True
    """Whether the paths of requests are told; their queries never are."""
    max_connections: Annotated[int, Meta(ge=1, le=100_000)] = 256
    """Of one sandbox, at a time."""
    requests_per_s: Annotated[float, Meta(gt=0, le=1_000_000)] = 500.0
    """Of one sandbox, after a `burst`."""
    burst: Annotated[int, Meta(ge=1, le=1_000_000)] = 1000
    connect_timeout_s: Annotated[float, Meta(gt=0, le=600)] = 10.0
    """For finding a host's addresses, and for each connection to one."""
    head_timeout_s: Annotated[float, Meta(gt=0, le=600)] = 30.0
    idle_timeout_s: Annotated[float, Meta(gt=0, le=86_400)] = 300.0
    secrets: Path | None = None
    """Where credentials are kept. Absent = `vault` in the data folder."""

    def __post_init__(self) -> None:
        for network in self.networks:
            ipaddress.ip_network(network)
        for name, addresses in self.addresses.items():
            if fold(name) is None or address_of(name) is not None:
                raise ValueError(f"{name[:80]!r} is no host name")
            if not addresses or any(address_of(each) is None for each in addresses):
                raise ValueError(f"{name!r}: every address must be one, as in 192.0.2.7")


class Retention(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is done about events that the log's limits are about to drop."""

    export_to: Path | None = None
    """A directory: what is about to be dropped is written there first. Absent = it is just dropped."""
    export_at: Annotated[float, Meta(ge=0.05, le=0.95)] = 0.8
    """Of an event's age, or of the log's size, as a part of the limit."""


class Gateway(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """HTTP, WebSocket and the dashboard."""

    enabled: bool = True
    """Whether `cloche up` has one."""
    host: str = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65_535)] = 7300
    """0 = any that is free. Where the default is taken by somebody else, `up` takes any that is free, and says so."""
    origins: Annotated[tuple[str, ...], Meta(max_length=100)] = ()
    """Pages of other origins that may use it, as in `https://tools.example.com`."""
    hosts: Annotated[tuple[str, ...], Meta(max_length=100)] = ()
    """Names that it is reached by, besides `host` and the loopback ones: others are refused, as DNS may lie."""
    public_keys: Annotated[tuple[Path, ...], Meta(max_length=20)] = ()
    """Ed25519 public keys (PEM) whose tokens count besides those of the node's own key."""
    shared_secret: Path | None = None
    """A file of 32 bytes or more: tokens signed with it (HS256) count too."""
    proxies: Annotated[tuple[str, ...], Meta(max_length=100)] = ()
    """Addresses or networks of reverse proxies whose `X-Forwarded-For` and `X-Forwarded-Proto` are believed."""
    requests_per_s: Annotated[float, Meta(gt=0, le=1_000_000)] = 100.0
    """Of one principal, or without a token of one address, after a `burst`."""
    burst: Annotated[int, Meta(ge=1, le=1_000_000)] = 400
    slow_s: Annotated[float, Meta(ge=0.1, le=3600)] = 20.0
    """A follower that takes nothing for so long is told where it was, and dropped. A request has to come as fast."""
    heartbeat_s: Annotated[float, Meta(ge=0.1, le=3600)] = 30.0
    max_body_bytes: Annotated[int, Meta(ge=1 << 16, le=1 << 34)] = 4 << 20
    """Of JSON, which is held in memory; the bus takes no order of more than 2 MiB. Files are streamed, of any size."""
    dashboard: Path | None = None
    """A directory with the built dashboard. Absent = the one that came with this version."""


class Capacity(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What this node has for sandboxes, and what becomes of those that find no room. `[node]` in the file."""

    labels: NodeLabels = {}
    """What specifications ask for by `node_labels`."""
    memory_mb: Annotated[int, Meta(ge=512, le=1 << 30)] | None = None
    """Of all sandboxes together, by their specifications. Absent = only their number counts."""
    cpus: Annotated[float, Meta(gt=0, le=100_000)] | None = None
    """As `memory_mb`."""
    overcommit: Annotated[float, Meta(ge=0.1, le=100)] = 1.0
    """So many times its memory and CPUs are promised: few sandboxes use all that they may."""
    wait_s: Annotated[float, Meta(ge=0, le=3600)] = 30.0
    """A new sandbox for which no node has room waits so long, where there are several nodes, and is then refused."""
    vitals_s: Annotated[float, Meta(ge=0.1, le=600)] = 5.0
    """Between two signs of life."""
    lost_after_s: Annotated[float, Meta(ge=0, le=86_400)] = 300.0
    """A node without signs of life for so long is taken for gone, and its sandboxes are recovered elsewhere.
    0 = only when a person says so."""


class Metrics(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Figures for Prometheus, and `/healthz`: one address for all services of a process."""

    host: str = "127.0.0.1"
    port: Annotated[int, Meta(ge=1, le=65_535)] | None = None
    """Absent = none. The gateway has its own `/metrics` in any case."""


class Tracing(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Spans, for whoever collects them. Needs `cloche[otel]`."""

    endpoint: str | None = None
    """Of a collector that takes OTLP over HTTP, as in `http://127.0.0.1:4318`. Absent = no spans."""
    headers: Annotated[dict[str, str], Meta(max_length=20)] = {}
    """That the collector wants to see, such as a key."""


class LogFormat(StrEnum):
    TEXT = "text"
    JSON = "json"
    """One object a line."""


class LogLevel(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Logging(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The words of the services themselves, on stderr."""

    format: LogFormat = LogFormat.TEXT
    level: LogLevel = LogLevel.WARNING


class Tls(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the servers at `url` are known, and how they know us."""

    ca: Path | None = None
    """Certificates that are trusted to sign theirs. Absent = the system's."""
    cert: Path | None = None
    """Ours, where they ask for one; with `key`."""
    key: Path | None = None


LEAST_DISK_MB = 2048


class Tenant(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the store of a tenant may take of the servers. Absent = what they have."""

    max_memory_mb: Annotated[int, Meta(ge=1)] | None = None
    max_disk_mb: Annotated[int, Meta(ge=LEAST_DISK_MB)] | None = None
    """Orders and vitals have 1,280 of it set aside; each partition of a divided log has its part of it."""
    max_streams: Annotated[int, Meta(ge=7)] | None = None
    """Without these seven there is no Cloche."""
    max_consumers: Annotated[int, Meta(ge=1)] | None = None
    max_connections: Annotated[int, Meta(ge=1)] | None = 1000
    """Of each of its users: a server takes 65,536 of all together, and then nobody's."""
    max_subscriptions: Annotated[int, Meta(ge=1)] | None = 100_000
    """Of each of its users: they lie in the servers' memory."""


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    data: Path
    node: Token = "local"
    take_over: Annotated[str, Meta(max_length=100)] = ""
    """The identity of the host that had this name and is gone for good. No other is succeeded by it."""
    nodes: Annotated[tuple[Token, ...], Meta(max_length=10_000)] = ()
    """Names of all nodes: servers let only these take orders. Empty = this one alone."""
    durability: Durability = Durability.DISK
    port: Annotated[int, Meta(ge=0, le=65_535)] = 0
    """Of the embedded server. 0 = the one it had last time, else a free one."""
    url: str | None = None
    """NATS servers that are run elsewhere, several with commas between. Absent = the embedded one."""
    tls: Tls = Tls()
    credentials: Path | None = None
    """For `url`: a directory of `<user>.json` files (`<realm>/<user>.json` for a realm), or one such file for all."""
    keeper: Keeping = Keeping.LAUNCH
    limits: Limits = Limits()
    intervals: Intervals = Intervals()
    sandbox: SandboxSpec = SandboxSpec()
    """Defaults that each sandbox's own specification is laid over."""
    pool: Pool = Pool()
    files: Files = Files()
    egress: Egress = Egress()
    guardian: Guardian = Guardian()
    agent: Agents = Agents()
    audit: Audit = Audit()
    quotas: Quotas = Quotas()
    """The same on every node: each counts for itself, by the log."""
    replay: Replaying = Replaying()
    retention: Retention = Retention()
    gateway: Gateway = Gateway()
    capacity: Capacity = Capacity()
    metrics: Metrics = Metrics()
    tracing: Tracing = Tracing()
    logging: Logging = Logging()
    max_sandboxes: Annotated[int, Meta(ge=1, le=MOST_SANDBOXES)] = 100
    first_uid: Annotated[int, Meta(ge=1000, le=2_000_000_000)] = 200_000
    """Of the users that local sandboxes run as, where the node is root. Nodes that share a host need a range each."""
    last_uid: Annotated[int, Meta(ge=1000, le=2_000_000_000)] = 2_000_000_000
    realm: Annotated[str, Meta(pattern=REALM_PATTERN)] = ""
    """Whose Cloche this is, where several share servers. Empty = the one that every installation has."""
    realms: Annotated[dict[Token, Tenant], Meta(max_length=1000)] = {}
    """The tenants that share the servers, besides that one: for whoever configures and provisions these."""
    partitions: Annotated[int, Meta(ge=1, le=MOST_PARTITIONS)] = 1
    """Logs that the sandboxes of every realm are spread over, by id. Fixed once anything is stored."""
    partition: Annotated[int, Meta(ge=0, lt=MOST_PARTITIONS)] | None = None
    """Only this one of them. Absent = all."""
    whole: Path | None = None
    """Of a partition: the data directory that its own lies in. Absent = there is but one."""

    def __post_init__(self) -> None:
        if self.last_uid - self.first_uid < 2 * MOST_SANDBOXES * self.partitions:
            raise ValueError("`first_uid` to `last_uid` are too few for the sandboxes that there may be")
        if self.partition is not None and self.partition >= self.partitions:
            raise ValueError(f"there is no partition {self.partition}: there are {self.partitions}, counted from 0")
        for name in (self.realm, *self.realms):
            if self.partitions > 1 and LIKE_A_PARTITION.fullmatch(name):
                raise ValueError(f"a realm cannot be called {name!r}: partitions are called so")
        for name, tenant in self.realms.items():
            if tenant.max_disk_mb is not None and tenant.max_disk_mb < LEAST_DISK_MB * self.partitions:
                least = f"{LEAST_DISK_MB} for each of {self.partitions} partitions"
                raise ValueError(f"`realms.{name}.max_disk_mb` is too little: it takes {least}")

    @property
    def host_data(self) -> Path:
        """For what a host has once, however many partitions it serves."""
        return self.whole or self.data

    @property
    def all_nodes(self) -> tuple[str, ...]:
        """On servers elsewhere exactly those that are named; with the embedded one this node in any case."""
        if self.url is not None and self.nodes:
            return self.nodes
        return tuple(dict.fromkeys([self.node, *self.nodes]))
