"""What a person may choose, from one TOML file overlaid by the environment."""

import ipaddress
import os
import tomllib
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta, Struct

from contracts.agents import Agents
from contracts.errors import Invalid
from contracts.guardian import Guardian
from contracts.hostnames import address_of, fold
from contracts.ids import Token
from contracts.spec import SandboxSpec
from contracts.streams import Limits

CONFIG_FILE = "cloche.toml"


class Durability(StrEnum):
    """What an acknowledged message survives."""

    DISK = "disk"
    """The machine loses power: the server calls fsync before it acknowledges."""
    PROCESS = "process"
    """Any process dies, the machine does not."""


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


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    data: Path
    node: Token = "local"
    durability: Durability = Durability.DISK
    port: Annotated[int, Meta(ge=0, le=65_535)] = 0
    """Of the embedded server. 0 = the one it had last time, else a free one."""
    url: str | None = None
    """A NATS server that is run elsewhere. Absent = the embedded one."""
    credentials: Path | None = None
    """For `url`: a directory of `<user>.json` files, or one such file for every user."""
    limits: Limits = Limits()
    intervals: Intervals = Intervals()
    sandbox: SandboxSpec = SandboxSpec()
    """Defaults that each sandbox's own specification is laid over."""
    pool: Pool = Pool()
    files: Files = Files()
    egress: Egress = Egress()
    guardian: Guardian = Guardian()
    agent: Agents = Agents()
    max_sandboxes: Annotated[int, Meta(ge=1, le=10_000)] = 100


class _Variable(NamedTuple):
    key: str
    number: bool = False


VARIABLES: dict[str, _Variable] = {
    "CLOCHE_DATA": _Variable("data"),
    "CLOCHE_NODE": _Variable("node"),
    "CLOCHE_DURABILITY": _Variable("durability"),
    "CLOCHE_PORT": _Variable("port", number=True),
    "CLOCHE_URL": _Variable("url"),
    "CLOCHE_CREDS": _Variable("credentials"),
    "CLOCHE_MAX_SANDBOXES": _Variable("max_sandboxes", number=True),
    "CLOCHE_ISOLATION": _Variable("sandbox.isolation"),
    "CLOCHE_POOL": _Variable("pool.size", number=True),
    "CLOCHE_GUARDIAN": _Variable("guardian.mode"),
}
"""Other `CLOCHE_*` names are left alone: they may belong to somebody else."""


def load(env: Mapping[str, str] = os.environ) -> Settings:
    """The settings of this process.

    Raises `Invalid` naming the file or variable and the key: unknown key, wrong type, out of bounds, unreadable file.
    """
    data = _data_directory(env)
    path, chosen = _config_file(env, data)
    values = {"data": str(data)} | _read(path, required=chosen)
    settings = _convert(values, str(path))
    for name, variable in VARIABLES.items():
        if env.get(name):
            _put(values, variable.key, _number(name, env[name]) if variable.number else env[name])
            settings = _convert(values, name)
    return msgspec.structs.replace(settings, data=settings.data.expanduser().absolute())


def _data_directory(env: Mapping[str, str]) -> Path:
    if given := env.get("CLOCHE_DATA"):
        return Path(given)
    state = env.get("XDG_STATE_HOME") or str(Path(env.get("HOME") or "~").expanduser() / ".local" / "state")
    return Path(state) / "cloche"


def _config_file(env: Mapping[str, str], data: Path) -> tuple[Path, bool]:
    given = env.get("CLOCHE_CONFIG")
    return (Path(given), True) if given else (data.expanduser() / CONFIG_FILE, False)


def _read(path: Path, *, required: bool) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except (FileNotFoundError, NotADirectoryError):
        if required:
            raise Invalid(f"CLOCHE_CONFIG: {path} does not exist") from None
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise Invalid(f"{path}: {error}") from error


def _put(values: dict[str, Any], key: str, value: object) -> None:
    part, _, rest = key.partition(".")
    if rest:
        _put(values.setdefault(part, {}), rest, value)
    else:
        values[part] = value


def _number(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise Invalid(f"{name}: {text[:80]!r} is not a number") from None


def _convert(values: dict[str, Any], source: str) -> Settings:
    try:
        return msgspec.convert(values, Settings, dec_hook=_path)
    except msgspec.ValidationError as error:
        raise Invalid(f"{source}: {error}") from error


def _path(kind: type, value: object) -> object:
    if kind is Path and isinstance(value, str) and value:
        return Path(value)
    raise ValueError("expected a path")
