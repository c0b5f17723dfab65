"""Credentials in a service's own environment: `CLOCHE_SECRET_<NAME>`, bound to hosts by `CLOCHE_HOSTS_<NAME>`."""

import contextlib
from collections.abc import Mapping

from contracts.errors import Invalid
from contracts.hostnames import fold
from contracts.ids import is_token
from infra.secrets.value import check_value

VARIABLE = "CLOCHE_SECRET_"
HOSTS_VARIABLE = "CLOCHE_HOSTS_"


class SecretVariables:
    """Each has one name: that of the variable in lower case. No other spelling of it is the same secret.

    Otherwise one that is bound to hosts under its own name could be had under another one for any host.
    """

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env

    def names(self) -> set[str]:
        names = {variable: variable.removeprefix(VARIABLE).lower() for variable in self._variables()}
        return {name for variable, name in names.items() if self.variable(name) == variable}

    def variable(self, name: str) -> str | None:
        """Set or not; None for a name that no variable can have."""
        return VARIABLE + name.upper() if is_token(name) and name == canonical(name) else None

    def read(self, name: str) -> str | None:
        """None where there is none. Raises `Invalid` for what is no credential."""
        variable = self.variable(name)
        return self._value(variable) if variable else None

    def hosts(self, name: str) -> tuple[str, ...] | None:
        """None where it is not bound. Raises `Invalid` for what is no list of hosts."""
        variable = HOSTS_VARIABLE + name.upper()
        if self.variable(name) is None or variable not in self._env:
            return None
        hosts = [fold(each.strip()) for each in self._env[variable].split(",")]
        if None in hosts:
            raise Invalid(f"{variable} is not a list of hosts, as in api.example.com,b.example.com")
        return tuple(sorted({host for host in hosts if host}))

    def values(self) -> list[str]:
        """Also of those that no name leads to."""
        found = []
        for variable in self._variables():
            with contextlib.suppress(Invalid):
                found.append(self._value(variable))
        return [value for value in found if value]

    def _variables(self) -> list[str]:
        return sorted(name for name, value in self._env.items() if name.startswith(VARIABLE) and value)

    def _value(self, variable: str) -> str | None:
        value = self._env.get(variable)
        return check_value(variable, value.encode("utf-8", "surrogateescape")) if value else None


def canonical(name: str) -> str:
    """The only name under which a variable can be had."""
    return name.lower().replace("-", "_")
