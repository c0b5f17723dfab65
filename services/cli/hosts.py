"""`pip,npm,example.com`: hosts, and presets that stand for some, as people type them."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from contracts.errors import Invalid
from contracts.hostnames import fold_pattern
from contracts.spec import NetworkMode, Preset


class Allowed(NamedTuple):
    hosts: tuple[str, ...]
    """In the one spelling that they have."""
    presets: tuple[Preset, ...]


def allowed(texts: Iterable[str], option: str = "--allow") -> Allowed:
    """Raises `Invalid` for what is neither."""
    words = [word for text in texts for word in text.split(",") if word]
    presets = tuple(Preset(word) for word in words if word in list(Preset))
    return Allowed(tuple(_host(word, option) for word in words if word not in list(Preset)), presets)


def _host(word: str, option: str) -> str:
    pattern = fold_pattern(word)
    if pattern is None:
        said = "a host is a name, `*.` and a name, or an address; a preset is one of"
        raise Invalid(f"{option} {word!r}: {said} {', '.join(Preset)}; a port is given by --port")
    return pattern


def network_of(texts: Iterable[str]) -> dict[str, Any]:
    """As the specification has it."""
    wanted = allowed(texts)
    return {"mode": NetworkMode.RESTRICTED, "allowed_hosts": wanted.hosts, "presets": wanted.presets}
