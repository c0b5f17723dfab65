"""Where the settings of a process come from: one TOML file, overlaid by the environment."""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from contracts.errors import Invalid
from infra.settings import Settings

CONFIG_FILE = "cloche.toml"


class _Variable(NamedTuple):
    key: str
    number: bool = False
    many: bool = False
    """Several, with commas between."""


VARIABLES: dict[str, _Variable] = {
    "CLOCHE_DATA": _Variable("data"),
    "CLOCHE_NODE": _Variable("node"),
    "CLOCHE_TAKE_OVER": _Variable("take_over"),
    "CLOCHE_NODES": _Variable("nodes", many=True),
    "CLOCHE_DURABILITY": _Variable("durability"),
    "CLOCHE_PORT": _Variable("port", number=True),
    "CLOCHE_URL": _Variable("url"),
    "CLOCHE_CREDS": _Variable("credentials"),
    "CLOCHE_CA": _Variable("tls.ca"),
    "CLOCHE_CERT": _Variable("tls.cert"),
    "CLOCHE_KEY": _Variable("tls.key"),
    "CLOCHE_REPLICAS": _Variable("limits.replicas", number=True),
    "CLOCHE_KEEPER": _Variable("keeper"),
    "CLOCHE_MAX_SANDBOXES": _Variable("max_sandboxes", number=True),
    "CLOCHE_REALM": _Variable("realm"),
    "CLOCHE_PARTITIONS": _Variable("partitions", number=True),
    "CLOCHE_PARTITION": _Variable("partition", number=True),
    "CLOCHE_ISOLATION": _Variable("sandbox.isolation"),
    "CLOCHE_POOL": _Variable("pool.size", number=True),
    "CLOCHE_GUARDIAN": _Variable("guardian.mode"),
    "CLOCHE_GATEWAY_HOST": _Variable("gateway.host"),
    "CLOCHE_GATEWAY_PORT": _Variable("gateway.port", number=True),
    "CLOCHE_METRICS_HOST": _Variable("metrics.host"),
    "CLOCHE_METRICS_PORT": _Variable("metrics.port", number=True),
    "CLOCHE_TRACING": _Variable("tracing.endpoint"),
    "CLOCHE_LOG_FORMAT": _Variable("logging.format"),
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
            _put(values, variable.key, _value(name, variable, env[name]))
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
        return _named(tomllib.loads(path.read_text()))
    except (FileNotFoundError, NotADirectoryError):
        if required:
            raise Invalid(f"CLOCHE_CONFIG: {path} does not exist") from None
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise Invalid(f"{path}: {error}") from error


def _named(values: dict[str, Any]) -> dict[str, Any]:
    """`[node]` has the node's name beside what it has; `node = "green"` is the name alone."""
    if isinstance(node := values.get("node"), dict):
        name = {"node": node.pop("name")} if "name" in node else {}
        return {key: value for key, value in values.items() if key != "node"} | name | {"capacity": node}
    return values


def _put(values: dict[str, Any], key: str, value: object) -> None:
    part, _, rest = key.partition(".")
    if rest:
        _put(values.setdefault(part, {}), rest, value)
    else:
        values[part] = value


def _value(name: str, variable: _Variable, text: str) -> object:
    if variable.many:
        return [part.strip() for part in text.split(",") if part.strip()]
    return _number(name, text) if variable.number else text


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
