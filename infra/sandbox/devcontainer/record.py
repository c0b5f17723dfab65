"""What a devcontainer sandbox has besides its container."""

import hashlib
import os
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct

from contracts.errors import Invalid, SandboxInvalidState
from contracts.ids import SandboxId, is_token
from infra.durable import write_atomically
from infra.sandbox.devcontainer.making import MadeImage


class Record(Struct, frozen=True, kw_only=True):
    image: MadeImage
    workspace: str
    begun: bool = False
    """Whether the commands that run once have run."""
    instance: str | None = None
    """The start whose commands have run."""


class DataFiles(NamedTuple):
    """Beneath the node's data directory; the containers' own is `containers`."""

    data: Path

    @property
    def root(self) -> Path:
        return self.data / "devcontainers"

    @property
    def records(self) -> Path:
        return self.root / "projects"

    @property
    def home(self) -> str:
        """Marks what is this data directory's own in an engine that others use too, as it does for containers."""
        return hashlib.sha256(os.fsencode(self.root)).hexdigest()[:16]

    def tag(self, sandbox: SandboxId) -> str:
        return f"{self.home}-{self._checked(sandbox)}"

    def directory(self, sandbox: SandboxId) -> Path:
        return self.records / self._checked(sandbox)

    def load(self, sandbox: SandboxId) -> Record | None:
        """None when there is none. Raises `SandboxInvalidState` when it cannot be read."""
        path = self._record(sandbox)
        try:
            return msgspec.json.decode(path.read_bytes(), type=Record)
        except FileNotFoundError:
            return None
        except msgspec.MsgspecError as error:
            raise SandboxInvalidState(f"{path} is damaged: {error}") from error

    def store(self, sandbox: SandboxId, record: Record) -> None:
        write_atomically(self._record(sandbox), msgspec.json.encode(record))

    def sandbox_ids(self) -> tuple[SandboxId, ...]:
        if not self.records.is_dir():
            return ()
        return tuple(sorted(path.name for path in self.records.iterdir() if is_token(path.name)))

    def unfinished(self, before: float) -> tuple[SandboxId, ...]:
        """Begun before that time, and without a record."""
        return tuple(
            sandbox
            for sandbox in self.sandbox_ids()
            if not self._record(sandbox).exists() and self.directory(sandbox).stat().st_mtime < before
        )

    def _record(self, sandbox: SandboxId) -> Path:
        return self.directory(sandbox) / "record.json"

    def _checked(self, sandbox: SandboxId) -> SandboxId:
        if not is_token(sandbox):
            raise Invalid(f"{sandbox!r} is not a sandbox id")
        return sandbox
