"""Names of what every realm has one of."""

from infra.bus.connection import Bus


def within(bus: Bus, name: str) -> str:
    """`<realm>/<name>` where the realm has a name: several of them may be in one process."""
    return f"{bus.realm}/{name}" if bus.realm else name
