"""May a sandbox reach this? Pure."""

from enum import StrEnum
from typing import NamedTuple

from contracts.hostnames import WILDCARD, address_of, fold, fold_pattern
from contracts.presets import hosts_of
from contracts.spec import Network, NetworkMode, Secret, UnknownHost


class Ruling(StrEnum):
    PASS = "pass"
    ASK = "ask"
    """Somebody may say that it passes."""
    DENY = "deny"


class Verdict(NamedTuple):
    ruling: Ruling
    reason: str = ""


PASSED = Verdict(Ruling.PASS)


class Policy:
    """A sandbox's network, ready to be asked about names. What a name resolves to is another question."""

    def __init__(self, network: Network, secrets: tuple[Secret, ...] = ()) -> None:
        patterns = [fold_pattern(each) for each in (*network.allowed_hosts, *hosts_of(network.presets))]
        self._exact = frozenset(each for each in patterns if each is not None and not each.startswith(WILDCARD))
        self._suffixes = frozenset(
            each.removeprefix(WILDCARD) for each in patterns if each is not None and each.startswith(WILDCARD)
        )
        self._ports = frozenset(network.allowed_ports)
        self.is_open = network.mode == NetworkMode.RESTRICTED
        self.asks = self.is_open and network.unknown == UnknownHost.ASK
        self.ask_timeout_ms = network.ask_timeout_ms
        self._routes = frozenset((secret.name, fold(secret.host), secret.port) for secret in secrets)

    def judge(self, host: str, port: int, secret: str | None = None) -> Verdict:
        """`host` is spelled as `fold` spells it: in any other spelling it is nothing that was ever allowed."""
        if not self.is_open:
            return Verdict(Ruling.DENY, "this sandbox has no network")
        if fold(host) != host:
            return Verdict(Ruling.DENY, "this is not the name of a host")
        if secret is not None:
            known = (secret, host, port) in self._routes
            return PASSED if known else Verdict(Ruling.DENY, "no secret of this sandbox goes there")
        if not self.allows_host(host):
            return self._unknown("the host is not allowed")
        if not self.allows_port(port):
            return self._unknown("the port is not allowed")
        return PASSED

    def allows_port(self, port: int) -> bool:
        return port in self._ports

    def allows_host(self, host: str) -> bool:
        """`*.suffix` is for what lies below the suffix, at any depth, and not for the suffix itself."""
        if host in self._exact:
            return True
        if not self._suffixes or address_of(host) is not None:
            return False
        rest = host
        while rest:
            rest = rest.partition(".")[2]
            if rest in self._suffixes:
                return True
        return False

    def _unknown(self, reason: str) -> Verdict:
        return Verdict(Ruling.ASK if self.asks else Ruling.DENY, reason)
