"""The routes of a sandbox's secrets: a path on its loopback for each, to the one host that may have it."""

from collections.abc import Callable

from contracts.errors import ClocheError
from contracts.hostnames import fold
from contracts.spec import SandboxSpec, Secret
from infra.proxy.port import Refused
from infra.proxy.route import Route
from infra.secret_store import SecretStore

NOT_TO_BE_HAD = 502


def routes_of(spec: SandboxSpec, store: SecretStore) -> dict[str, Route]:
    """By name. A secret that the node does not have refuses each request with the reason, and works once it is there:
    a sandbox that needs it later, or never, is not kept from being made.
    """
    return {secret.name: _route(secret, store) for secret in spec.secrets}


def _route(secret: Secret, store: SecretStore) -> Route:
    host = fold(secret.host) or secret.host
    return Route(
        name=secret.name,
        host=host,
        port=secret.port,
        header=secret.header,
        template=secret.template,
        secret=_value(store, secret.name, host),
    )


def _value(store: SecretStore, name: str, host: str) -> Callable[[], str]:
    def read() -> str:
        try:
            return store.read(name, host)
        except ClocheError as error:
            raise Refused(error.message, NOT_TO_BE_HAD) from None

    return read
