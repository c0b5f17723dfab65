"""What a sandbox is to be: one strict Struct, every field bounded."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from contracts.errors import Invalid
from contracts.hostnames import fold, fold_pattern
from contracts.ids import END, Name, Token

EnvName = Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}" + END)]
EnvValue = Annotated[str, Meta(max_length=65_536, pattern=r"^[^\x00]*" + END)]
HostPattern = Annotated[str, Meta(pattern=r"^(\*\.)?[A-Za-z0-9._:\u00a1-\uffff-]{1,253}" + END)]
"""Case and a dot at the end do not matter, and a name may be written in its own letters or in A-labels."""
Hostname = Annotated[str, Meta(pattern=r"^[A-Za-z0-9._-]{1,253}" + END)]
Port = Annotated[int, Meta(ge=1, le=65_535)]
InsidePath = Annotated[str, Meta(pattern=r"^/[^\x00]{0,4095}" + END)]
RelativePath = Annotated[str, Meta(pattern=r"^[^/\x00][^\x00]{0,4095}" + END)]
HostPath = Annotated[str, Meta(pattern=r"^/[^\x00]{0,4095}" + END)]

ALWAYS_BLOCKED: tuple[str, ...] = (
    "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "DATABASE_URL", "DB_PASSWORD", "POSTGRES_PASSWORD",
    "MYSQL_PASSWORD", "REDIS_PASSWORD", "PRIVATE_KEY", "SSH_PRIVATE_KEY", "ENCRYPTION_KEY", "JWT_SECRET",
    "SECRET_KEY", "SIGNING_KEY", "STRIPE_SECRET_KEY", "SENDGRID_API_KEY", "TWILIO_AUTH_TOKEN",
)  # fmt: skip
"""Never passed into a sandbox, whatever is asked."""

DEFAULT_PASSTHROUGH: tuple[str, ...] = (
    "ANTHROPIC_BASE_URL", "PATH", "HOME", "SHELL", "TERM", "USER", "LANG", "LC_ALL", "NODE_ENV", "npm_config_registry",
)  # fmt: skip

DEFAULT_HOSTS: tuple[str, ...] = (
    "github.com", "api.github.com", "raw.githubusercontent.com", "registry.npmjs.org", "cdn.jsdelivr.net",
)  # fmt: skip


class _Part(Struct, frozen=True, kw_only=True):
    """People type these, so `merge` refuses unknown fields; events carry them, so decoding passes over those."""


class Isolation(StrEnum):
    DOCKER = "docker"
    DEVCONTAINER = "devcontainer"
    LOCAL = "local"


class NetworkMode(StrEnum):
    NONE = "none"
    RESTRICTED = "restricted"
    FULL = "full"


class Resources(_Part, frozen=True, kw_only=True):
    memory_mb: Annotated[int, Meta(ge=512, le=32_768)] = 4096
    cpus: Annotated[float, Meta(ge=0.5, le=16)] = 2.0
    pids: Annotated[int, Meta(ge=32, le=4096)] = 256
    disk_mb: Annotated[int, Meta(ge=1024, le=102_400)] = 10_240
    timeout_ms: Annotated[int, Meta(ge=60_000, le=86_400_000)] = 3_600_000


class Preset(StrEnum):
    """A package manager or the like, for the hosts that it needs (`contracts.presets`)."""

    PIP = "pip"
    NPM = "npm"
    APT = "apt"
    CARGO = "cargo"
    GO = "go"
    GIT_GITHUB = "git-github"


class UnknownHost(StrEnum):
    """What becomes of a request for a host that is not allowed."""

    DENY = "deny"
    ASK = "ask"
    """It waits until somebody approves or rejects it; unanswered, it is denied."""


class Network(_Part, frozen=True, kw_only=True):
    mode: NetworkMode = NetworkMode.RESTRICTED
    allowed_hosts: Annotated[tuple[HostPattern, ...], Meta(max_length=1000)] = DEFAULT_HOSTS
    """Exact names or `*.suffix`. An empty list allows nothing."""
    allowed_ports: Annotated[tuple[Port, ...], Meta(max_length=1000)] = (443, 80)
    presets: Annotated[tuple[Preset, ...], Meta(max_length=20)] = ()
    """Their hosts are allowed besides."""
    unknown: UnknownHost = UnknownHost.DENY
    ask_timeout_ms: Annotated[int, Meta(ge=1000, le=86_400_000)] = 300_000
    """How long an unanswered request for an unknown host may be approved; then it is denied."""


class Environment(_Part, frozen=True, kw_only=True):
    """Precedence: blocked, then set, then passthrough."""

    passthrough: Annotated[tuple[EnvName, ...], Meta(max_length=500)] = DEFAULT_PASSTHROUGH
    set: Annotated[dict[EnvName, EnvValue], Meta(max_length=500)] = {}
    blocked: Annotated[tuple[EnvName, ...], Meta(max_length=500)] = ALWAYS_BLOCKED
    inherit_all: bool = False


def blocked_names(environment: Environment) -> frozenset[str]:
    """The safety list and the spec's own; nothing takes a name off the safety list."""
    return frozenset((*ALWAYS_BLOCKED, *environment.blocked))


PLACE = "{secret}"
"""Where the value stands in the template of a header."""
FRAMING_HEADERS = frozenset(
    {"host", "connection", "content-length", "transfer-encoding", "te", "trailer", "upgrade", "expect", "keep-alive"}
)
"""What says where a request goes and where it ends. None of them takes a credential."""


class Secret(_Part, frozen=True, kw_only=True):
    """A credential that the egress proxy adds to requests for a host. Its value never enters the sandbox."""

    name: Token
    """Of the credential in the node's store, and of its route: `http://127.0.0.1:3129/<name>/…` inside."""
    host: Hostname
    """Named exactly: a credential has one place to go to. It is spoken to with TLS."""
    port: Port = 443
    env: EnvName | None = None
    """A variable that is set inside to the address of the route, such as `ANTHROPIC_BASE_URL`."""
    header: Annotated[str, Meta(pattern=r"^[A-Za-z0-9-]{1,100}" + END)] = "Authorization"
    template: Annotated[str, Meta(max_length=500)] = "Bearer {secret}"


class CopyDirectory(_Part, tag_field="kind", tag="directory", frozen=True, kw_only=True):
    path: HostPath


class GitWorktree(_Part, tag_field="kind", tag="git", frozen=True, kw_only=True):
    """A worktree of the repository on its own branch, `agent/<agent>/<task>` unless named."""

    repository: HostPath
    ref: Name = "HEAD"
    branch: Name | None = None


class ForkOf(_Part, tag_field="kind", tag="fork", frozen=True, kw_only=True):
    sandbox: Token
    sequence: Annotated[int, Meta(ge=1)]


Source = CopyDirectory | GitWorktree | ForkOf


class Workspace(_Part, frozen=True, kw_only=True):
    path: InsidePath = "/workspace"
    source: Source | None = None
    """Absent = empty."""


class Permissions(_Part, frozen=True, kw_only=True):
    """Directories relative to the workspace that file operations may touch."""

    read: Annotated[tuple[RelativePath, ...], Meta(max_length=200)] = (".",)
    write: Annotated[tuple[RelativePath, ...], Meta(max_length=200)] = (".",)


class Mount(_Part, frozen=True, kw_only=True):
    source: HostPath
    target: InsidePath
    read_only: bool = True


class Docker(_Part, frozen=True, kw_only=True):
    image: Annotated[str, Meta(min_length=1, max_length=500)] = "node:22-slim"
    mounts: Annotated[tuple[Mount, ...], Meta(max_length=50)] = ()
    runtime: Name | None = None


NodeLabels = Annotated[dict[Token, Annotated[str, Meta(max_length=200)]], Meta(max_length=20)]


class RestartPolicy(StrEnum):
    """What is done about a sandbox that dies without being told to."""

    NEVER = "never"
    ON_FAILURE = "on_failure"
    """Not what ended by itself with code 0."""
    ALWAYS = "always"


class Restart(_Part, frozen=True, kw_only=True):
    """Recovery from a death. What was stopped, by a person or by a limit, stays stopped."""

    policy: RestartPolicy = RestartPolicy.ON_FAILURE
    max_attempts: Annotated[int, Meta(ge=0, le=100)] = 3
    """Then it has failed. Counted anew once it has run for ten minutes."""
    backoff_ms: Annotated[int, Meta(ge=0, le=60_000)] = 1000
    """Before the second attempt; doubles with each further one, up to a minute. The first is at once."""


class Devcontainer(_Part, frozen=True, kw_only=True):
    config: RelativePath = ".devcontainer/devcontainer.json"
    features: Annotated[dict[str, dict[str, str | bool]], Meta(max_length=50)] = {}


class SandboxSpec(_Part, frozen=True, kw_only=True):
    isolation: Isolation | None = None
    """Absent = docker where an engine answers, else local."""
    resources: Resources = Resources()
    network: Network = Network()
    environment: Environment = Environment()
    secrets: Annotated[tuple[Secret, ...], Meta(max_length=50)] = ()
    workspace: Workspace = Workspace()
    permissions: Permissions = Permissions()
    docker: Docker = Docker()
    devcontainer: Devcontainer = Devcontainer()
    restart: Restart = Restart()
    idle_stop_ms: Annotated[int, Meta(ge=1000, le=86_400_000)] | None = None
    """Stopped when nothing has happened in it for so long. Absent = never."""
    agent_id: Token | None = None
    project_id: Token | None = None
    task_id: Token | None = None
    labels: Annotated[dict[Name, Annotated[str, Meta(max_length=1000)]], Meta(max_length=100)] = {}
    node_labels: NodeLabels = {}
    """Only a node that has all of these labels takes it. Empty = any node."""


MERGED_LISTS = frozenset({("environment", "passthrough"), ("environment", "blocked")})
"""Lists that grow by what is given; every other list is replaced, so that an empty one really means nothing."""


CHOICES = frozenset({("workspace", "source")})
"""One of several kinds: what is given takes the place of the default whole, or two kinds would mix."""


def merge(defaults: SandboxSpec, given: bytes | msgspec.Raw) -> SandboxSpec:
    """The defaults with what was given laid over them. Blocked names can only grow, from `ALWAYS_BLOCKED` up.

    Raises `Invalid` with the path of the first bad field.
    """
    try:
        wanted = msgspec.json.decode(given)
        understood = msgspec.to_builtins(msgspec.json.decode(given, type=SandboxSpec))
        _refuse_unknown(wanted, understood, "$")
        laid = _lay(msgspec.to_builtins(defaults), wanted, ())
        laid["environment"]["blocked"] = _joined(laid["environment"]["blocked"], ALWAYS_BLOCKED)
        merged = msgspec.convert(laid, SandboxSpec)
        check_hosts(merged.network, "$.network")
        check_secrets(merged)
        return merged
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Invalid(f"sandbox specification: {error}") from error


def check_hosts(network: Network, path: str) -> None:
    """Raises `Invalid` for what could never match: nobody should believe that it is allowed."""
    for index, pattern in enumerate(network.allowed_hosts):
        if fold_pattern(pattern) is None:
            said = f"{pattern[:80]!r} is no host: a name, `*.` and a name, or an address; ports are in allowed_ports"
            raise Invalid(f"sandbox specification: {said} - at `{path}.allowed_hosts[{index}]`")


def check_secrets(spec: SandboxSpec) -> None:
    """Raises `Invalid` for one that could not be sent as it is meant."""
    secrets = spec.secrets
    if secrets and spec.network.mode is NetworkMode.FULL:
        raise Invalid("sandbox specification: secrets go through egress, so not with mode full - at `$.network.mode`")
    for index, secret in enumerate(secrets):
        wrong = None
        if secret.name in {each.name for each in secrets[:index]}:
            wrong = f"{secret.name!r} is there twice: each has one route of its name"
        elif fold(secret.host) is None:
            wrong = f"{secret.host[:80]!r} is no host"
        elif secret.header.lower() in FRAMING_HEADERS:
            wrong = f"{secret.header} is not a header for a credential"
        elif secret.template.count(PLACE) != 1 or not (secret.template.isascii() and secret.template.isprintable()):
            wrong = f"the template is one line with {PLACE} in it once"
        if wrong:
            raise Invalid(f"sandbox specification: {wrong} - at `$.secrets[{index}]`")


def merge_network(current: Network, given: bytes | msgspec.Raw) -> Network:
    """The network as it is with what was given laid over it.

    Raises `Invalid` with the path of the first bad field, and for mode `full`, which a sandbox has from the start or
    never: its interfaces are made with it.
    """
    try:
        wanted = msgspec.json.decode(given)
        understood = msgspec.to_builtins(msgspec.json.decode(given, type=Network))
        _refuse_unknown(wanted, understood, "$")
        changed: Network = msgspec.convert(_lay(msgspec.to_builtins(current), wanted, ("network",)), Network)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Invalid(f"network: {error}") from error
    if changed.mode != current.mode and NetworkMode.FULL in (changed.mode, current.mode):
        raise Invalid(f"network: mode cannot become {changed.mode} where it is {current.mode}: make another sandbox")
    check_hosts(changed, "$")
    return changed


def _refuse_unknown(given: Any, understood: Any, path: str) -> None:
    if isinstance(given, dict):
        for key, value in given.items():
            if key not in understood:
                raise Invalid(f"sandbox specification: unknown field `{key}` - at `{path}`")
            _refuse_unknown(value, understood[key], f"{path}.{key}")
    elif isinstance(given, list):
        for index, value in enumerate(given):
            _refuse_unknown(value, understood[index], f"{path}[{index}]")


def _lay(under: dict[str, Any], over: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    laid = dict(under)
    for key, value in over.items():
        here = (*path, key)
        before = laid.get(key)
        if here in MERGED_LISTS:
            laid[key] = _joined(before or (), value)
        elif isinstance(value, dict) and isinstance(before, dict) and here not in CHOICES:
            laid[key] = _lay(before, value, here)
        else:
            laid[key] = value
    return laid


def _joined(first: Iterable[str], then: Iterable[str]) -> list[str]:
    return list(dict.fromkeys([*first, *then]))
