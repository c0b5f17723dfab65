"""Secrets of the node that would enter a sandbox as a plain variable, and those that cannot be used in it."""

from collections.abc import Callable, Mapping

import msgspec

from contracts.errors import ClocheError
from contracts.hostnames import fold
from contracts.spec import Environment, SandboxSpec
from infra.secrets.store import SecretStore
from infra.secrets.variables import VARIABLE

HoldsSecret = Callable[[str], bool]


def block_secrets(spec: SandboxSpec, host: Mapping[str, str], holds: HoldsSecret) -> SandboxSpec:
    """The specification with every such name blocked, so that it is reported like any other blocked name."""
    found = _holding(spec.environment, host, holds)
    if not found:
        return spec
    blocked = tuple(dict.fromkeys((*spec.environment.blocked, *found)))
    return msgspec.structs.replace(spec, environment=msgspec.structs.replace(spec.environment, blocked=blocked))


def notes_on_secrets(store: SecretStore, spec: SandboxSpec) -> tuple[str, ...]:
    """What keeps a secret of the specification from being used, as things are. Reads the store."""
    found = []
    for secret in spec.secrets:
        try:
            store.read(secret.name, fold(secret.host))
        except ClocheError as error:
            found.append(error.message)
    return tuple(found)


def _holding(environment: Environment, host: Mapping[str, str], holds: HoldsSecret) -> list[str]:
    asked = host if environment.inherit_all else {name: host[name] for name in environment.passthrough if name in host}
    return sorted(
        {
            *(name for name in asked if name.startswith(VARIABLE) or holds(host[name])),
            *(name for name, value in environment.set.items() if holds(value)),
        }
    )
