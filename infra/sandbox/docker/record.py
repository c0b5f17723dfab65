"""The durable identity of a container, as a blank and as a sandbox."""

from pathlib import Path

import msgspec
from msgspec import Struct

from contracts.errors import SandboxInvalidState
from contracts.ids import SandboxId
from contracts.spec import Mount, NetworkMode, Resources
from infra.durable import write_atomically
from infra.sandbox.base import Created, Enforcement


class Record(Struct, frozen=True, kw_only=True):
    """In the file of a sandbox it is that sandbox's; in the file of a blank, nobody's yet."""

    key: str
    shape: str
    image: str
    """As it was asked for."""
    image_id: str
    image_env: dict[str, str]
    image_volumes: tuple[str, ...]
    workspace: str
    resources: Resources
    network: NetworkMode
    mounts: tuple[Mount, ...]
    runtime: str | None
    user: str
    enforcement: Enforcement
    container: str = ""
    """The container's id; empty until it is made."""
    shell: str | None = None

    name: str = ""
    """The container's, once it is a sandbox's."""
    env: dict[str, str] = {}
    env_blocked: tuple[str, ...] = ()
    ready: bool = False
    """False until it is a whole sandbox."""
    instance: str | None = None
    """Of the last start, a blank's too; None until there was one, and after a stop."""
    ending: bool = False
    """Set before this instance is told to end: its end is no death, whoever notices it."""


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
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_atomically(path, msgspec.json.encode(record))


def as_created(sandbox: SandboxId, record: Record, workspace: Path) -> Created:
    return Created(
        sandbox=sandbox,
        workspace=record.workspace,
        host_workspace=str(workspace),
        env_passed=tuple(sorted(record.env)),
        env_blocked=record.env_blocked,
        enforcement=record.enforcement,
    )


def was_asked(path: Path, instance: str) -> bool:
    """Whether an order ends or has ended that instance, whichever process took it."""
    try:
        record = load_record(path)
    except SandboxInvalidState:
        return False
    # Nothing but an order takes an instance off the record.
    return record is None or record.instance != instance or record.ending
