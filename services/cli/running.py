"""The note that a node leaves while it is up."""

import os
from pathlib import Path

import msgspec
from msgspec import Struct

from infra.embedded.process import Identity, identify


class Running(Struct, frozen=True, kw_only=True):
    pid: int
    started: int
    url: str

    @property
    def identity(self) -> Identity:
        return Identity(self.pid, self.started)


def record_file(data: Path) -> Path:
    return data / "run" / "up.json"


def find(data: Path) -> Running | None:
    """The node of a data directory, if one is up and takes orders."""
    try:
        running = msgspec.json.decode(record_file(data).read_bytes(), type=Running)
    except (OSError, msgspec.MsgspecError):
        return None
    return running if running.identity.alive else None


def leave(data: Path, url: str) -> Running:
    """Notes this process as the node."""
    me = identify(os.getpid())
    assert me is not None
    running = Running(pid=me.pid, started=me.started, url=url)
    draft = record_file(data).with_suffix(".draft")
    draft.write_bytes(msgspec.json.encode(running))
    draft.replace(record_file(data))
    return running
