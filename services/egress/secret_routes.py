"""The routes of a sandbox's secrets: a path on its loopback for each, to the one host that may have it."""

import logging
from collections.abc import Callable

from contracts.errors import ClocheError, ContextMissing
from contracts.hostnames import fold
from contracts.spec import SandboxSpec, Secret
from infra.proxy.port import Refused
from infra.proxy.route import Route
from infra.secrets.store import SecretStore

logger = logging.getLogger(__name__)

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
    told = ""

    def read() -> str:
        nonlocal told
        try:
            value = store.read(name, host)
        except ClocheError as error:
            # Once for each reason: how often it is asked is up to the sandbox.
            if error.message != told:
                logger.warning("a route to %s cannot be served: %s", host, error.message)
            told = error.message
            raise Refused(_words(name, error), NOT_TO_BE_HAD) from None
        told = ""
        return value

    return read


def _words(name: str, error: ClocheError) -> str:
    """For those inside, whom the node's paths and the hosts of its secrets do not concern."""
    if isinstance(error, ContextMissing):
        return f"this node has no secret {name!r}: give it with `cloche secret set {name}`"
    return f"secret {name!r} cannot be used for this host: `cloche secret ls` says why"
