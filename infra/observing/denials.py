"""Counts what somebody asked for who may not."""

from infra.observing import catalogue


def failed(service: str, code: str) -> None:
    """The service tells whoever asked of a failure with this code. Only denials are counted."""
    if code in (catalogue.denials.labels["code"] or ()):
        catalogue.denials.add(service, code)
