"""Finding the embedded server without starting it."""

from pathlib import Path

from infra.embedded import store
from infra.embedded.process import Identity


def find(data: Path) -> str | None:
    """The address of the server of a data directory, or None if none runs. That it answers is not yet known."""
    record = store.read_record(data)
    if record is None or not Identity(record.pid, record.started).alive:
        return None
    return f"nats://127.0.0.1:{record.port}"
