"""A secret as people type it: `NAME=HOST[:PORT],env=…,header=…,template=…`."""

from collections.abc import Iterable
from typing import Any

from contracts.errors import Invalid

EXAMPLE = "anthropic=api.anthropic.com,env=ANTHROPIC_BASE_URL,header=x-api-key,template={secret}"
OPTIONS = ("env", "header", "template")


def secrets_of(texts: Iterable[str]) -> list[dict[str, Any]]:
    """As the specification has them. Raises `Invalid` for what cannot be read so."""
    return [_secret(text) for text in texts]


def _secret(text: str) -> dict[str, Any]:
    place, *options = text.split(",")
    name, equals, address = place.partition("=")
    host, colon, port = address.partition(":")
    pairs = [option.partition("=") for option in options]
    if not equals or not host or (colon and not port.isdigit()) or any(key not in OPTIONS for key, _, _ in pairs):
        raise Invalid(f"--secret {text!r} is not NAME=HOST[:PORT] with {', '.join(OPTIONS)} after it: try {EXAMPLE}")
    return {
        "name": name,
        "host": host,
        **({"port": int(port)} if colon else {}),
        **{key: value for key, _, value in pairs},
    }
