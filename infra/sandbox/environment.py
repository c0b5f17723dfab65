"""Which variables a command in a sandbox starts with. Pure: the host's environment comes in as an argument."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from contracts.errors import Invalid
from contracts.spec import ALWAYS_BLOCKED, Environment

CREDENTIALS = frozenset({"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "GITHUB_TOKEN", "GH_TOKEN", "NPM_TOKEN"})
"""Passed only when named, never by `inherit_all`."""

NONE: Mapping[str, str] = MappingProxyType({})

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}\Z")


class SandboxOwn(NamedTuple):
    """What is true inside, whatever the host says."""

    path: str
    home: str
    shell: str
    user: str
    version: str
    root: str


class BuiltEnvironment(NamedTuple):
    env: dict[str, str]
    blocked: tuple[str, ...]
    """Names that were asked for and refused, sorted."""


def build_environment(
    policy: Environment, host: Mapping[str, str], own: SandboxOwn, way_out: Mapping[str, str] = NONE
) -> BuiltEnvironment:
    """Blocked names win over `set`, which wins over the way out, which wins over what the host passes.

    `PATH`, `HOME`, `SHELL`, `USER` are the sandbox's own unless `set` names them; what marks a sandbox as one
    cannot be set at all. Values of the host that are not text are left out.

    Raises `Invalid` for a value that no process can be given.
    """
    blocked = {*ALWAYS_BLOCKED, *policy.blocked}
    asked = {*policy.passthrough, *policy.set, *(host if policy.inherit_all else ())}
    laid = {"LANG": "C.UTF-8", **_from_host(policy, host)}
    ours = {**_own(own), **_without(way_out, blocked)}
    laid = {**_without(laid, blocked), **ours, **_without(_given(policy), blocked), **_marks(own)}
    return BuiltEnvironment(laid, tuple(sorted(asked & blocked)))


def _without(values: Mapping[str, str], blocked: set[str]) -> dict[str, str]:
    return {name: value for name, value in values.items() if name not in blocked}


def _from_host(policy: Environment, host: Mapping[str, str]) -> dict[str, str]:
    named = set(policy.passthrough)
    inherited = {name for name in host if policy.inherit_all and _may_be_inherited(name)}
    return {name: host[name] for name in sorted(named | inherited) if name in host and _is_text(host[name])}


def _may_be_inherited(name: str) -> bool:
    # CLOCHE_* names where the node keeps its own secrets.
    return bool(_NAME.match(name)) and name not in CREDENTIALS and not name.startswith("CLOCHE_")


def _is_text(value: str) -> bool:
    return not any(0xD800 <= ord(character) <= 0xDFFF for character in value)


def _given(policy: Environment) -> dict[str, str]:
    for name, value in policy.set.items():
        if "\0" in value or not _is_text(value):
            raise Invalid(f"environment.set.{name}: a value is text without NUL")
    return dict(policy.set)


def _own(own: SandboxOwn) -> dict[str, str]:
    return {"PATH": own.path, "HOME": own.home, "SHELL": own.shell, "USER": own.user, "LOGNAME": own.user}


def _marks(own: SandboxOwn) -> dict[str, str]:
    return {
        "IS_SANDBOXED": "true",
        "SANDBOX_VERSION": own.version,
        "ALLOWED_ROOT_DIRECTORY": own.root,
    }
