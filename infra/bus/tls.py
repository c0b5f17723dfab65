"""Whom to trust as a NATS server, and by what to be known to it."""

import ssl
from pathlib import Path

from contracts.errors import Invalid

SCHEME = "tls://"


def context(
    url: str, ca: Path | None = None, cert: Path | None = None, key: Path | None = None
) -> ssl.SSLContext | None:
    """None where nothing asks for TLS; then a server that insists on it is held against the system's certificates.

    Raises `Invalid` naming the file that cannot be used.
    """
    if ca is None and cert is None and key is None and SCHEME not in url:
        return None
    try:
        made = ssl.create_default_context(cafile=ca)
    except (OSError, ssl.SSLError) as error:
        raise Invalid(f"{ca}: cannot be used as certificates to trust: {error}") from error
    if (cert is None) != (key is None):
        raise Invalid("`[tls]`: `cert` and `key` belong together")
    if cert is not None:
        try:
            made.load_cert_chain(cert, key)
        except (OSError, ssl.SSLError) as error:
            raise Invalid(f"{cert} and {key}: cannot be used as certificate and key: {error}") from error
    return made
