"""The durable identity of a local sandbox: what it is, and which processes are its own."""

from pathlib import Path

import msgspec
from msgspec import Struct

from contracts.errors import SandboxInvalidState
from contracts.ids import NodeId, SandboxId
from contracts.spec import NetworkMode, Resources
from infra.durable import write_atomically
from infra.sandbox.base import Enforcement
from infra.sandbox.local.cgroups import CgroupPlace
from infra.sandbox.local.processes import Identity


class Record(Struct, frozen=True, kw_only=True):
    sandbox: SandboxId
    node: NodeId
    host_uid: int | None
    """The uid on the host that everything inside runs as; None = the uid of the service itself."""
    workspace: str
    resources: Resources
    network: NetworkMode
    env: dict[str, str]
    env_blocked: tuple[str, ...]
    enforcement: Enforcement
    ready: bool = False
    """False until the workspace is whole."""
    blank: bool = False
    """It is nobody's yet, whatever name it has."""
    instance: str | None = None
    """Set before anything is started and cleared after everything ended, so a crash between is always seen."""
    ending: bool = False
    """Set before this instance is told to end: its end is no death, whoever notices it."""
    identity: Identity | None = None
    cgroup: CgroupPlace | None = None
    paused: bool = False


def load_record(path: Path) -> Record | None:
    """None when there is none. Raises `SandboxInvalidState` when it cannot be read."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Record)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as error:
        raise SandboxInvalidState(f"{path} is damaged: {error}") from error


def store_record(path: Path, record: Record) -> None:
    """Whole or not at all, on disk when this returns, readable by the owner only: it holds values of variables."""
    write_atomically(path, msgspec.json.encode(record))
