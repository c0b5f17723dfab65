"""From what a person wants changed to the fields of a sandbox's network that are to be others. Pure."""

from typing import Any, NamedTuple

from contracts.errors import Invalid
from contracts.hostnames import WILDCARD, fold_pattern
from contracts.presets import HOSTS
from contracts.spec import Network, NetworkMode, Preset, UnknownHost
from services.cli.hosts import allowed


class Changes(NamedTuple):
    allow: list[str] | None
    deny: list[str] | None
    port: list[int] | None
    no_port: list[int] | None
    mode: NetworkMode | None
    ask: bool | None

    def any(self) -> bool:
        return any(each is not None for each in self)


def changed(policy: Network, changes: Changes) -> dict[str, Any]:
    """The fields that are to be others. Raises `Invalid` for what makes no sense."""
    more, less = allowed(changes.allow or []), allowed(changes.deny or [], "--deny")
    hosts = {fold_pattern(host): host for host in policy.allowed_hosts}
    for host in less.hosts:
        hosts.pop(host, None)
    wanted: dict[str, Any] = {
        "allowed_hosts": tuple(dict.fromkeys([*hosts.values(), *(host for host in more.hosts if host not in hosts)])),
        "presets": tuple(each for each in dict.fromkeys([*policy.presets, *more.presets]) if each not in less.presets),
        "allowed_ports": tuple(
            each
            for each in dict.fromkeys([*policy.allowed_ports, *(changes.port or [])])
            if each not in (changes.no_port or [])
        ),
        "mode": changes.mode or policy.mode,
        "unknown": policy.unknown if changes.ask is None else UnknownHost.ASK if changes.ask else UnknownHost.DENY,
    }
    _check_denials(less.hosts, wanted["allowed_hosts"], wanted["presets"])
    return {name: value for name, value in wanted.items() if value != getattr(policy, name)}


def _check_denials(denied: tuple[str, ...], hosts: tuple[str, ...], presets: tuple[Preset, ...]) -> None:
    """Nobody should believe that a host is denied which something else allows."""
    for host in denied:
        for preset in presets:
            if host in HOSTS[preset]:
                raise Invalid(f"--deny {host}: it comes with the preset {preset}: --deny {preset}")
        for pattern in hosts:
            if pattern.startswith(WILDCARD) and host.endswith((fold_pattern(pattern) or pattern)[1:]):
                raise Invalid(f"--deny {host}: {pattern} allows it: --deny '{pattern}'")
