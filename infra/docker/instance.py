"""Which start of a container is meant: what ran before a restart is gone."""


def instance_of(container: str, started_at: str) -> str:
    """New for each start. `started_at` as the engine's inspection has it."""
    return f"{container[:32]}@{started_at}"
