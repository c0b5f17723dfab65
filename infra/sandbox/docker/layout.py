"""Where Docker sandboxes keep what."""

import hashlib
import os
import re
from pathlib import Path
from typing import NamedTuple

from contracts.errors import Invalid
from contracts.ids import SandboxId, is_token

_KEY = re.compile(r"[0-9a-f]{12}\Z")


class DataFiles(NamedTuple):
    """A container's directory has its `key`, which says nothing of the sandbox: it may be a blank at first."""

    data: Path

    @property
    def home(self) -> str:
        """Marks what is this data directory's own in an engine that others use too."""
        return hashlib.sha256(os.fsencode(self.data)).hexdigest()[:16]

    @property
    def root(self) -> Path:
        return self.data / "containers"

    @property
    def records(self) -> Path:
        return self.root / "sandboxes"

    @property
    def blanks(self) -> Path:
        return self.root / "blanks"

    def container(self, key: str) -> Path:
        return self.root / key

    def workspace(self, key: str) -> Path:
        return self.container(key) / "workspace"

    def discarded(self, key: str) -> Path:
        """Where a workspace is moved that is about to be deleted."""
        return self.container(key) / "discarded"

    def record(self, sandbox: SandboxId) -> Path:
        """Raises `Invalid` for an id that is no token, so that no id ever becomes another path."""
        if not is_token(sandbox):
            raise Invalid(f"{sandbox!r} is not a sandbox id")
        return self.records / f"{sandbox}.json"

    def blank(self, shape: str, key: str) -> Path:
        return self.blanks / shape / f"{key}.json"

    def sandbox_ids(self) -> tuple[SandboxId, ...]:
        if not self.records.is_dir():
            return ()
        return tuple(sorted(path.stem for path in self.records.glob("*.json") if is_token(path.stem)))

    def blank_files(self, shape: str = "*") -> tuple[Path, ...]:
        return tuple(sorted(self.blanks.glob(f"{shape}/*.json")))

    def container_keys(self) -> tuple[str, ...]:
        """Of all directories of containers that are there, whether or not a record accounts for them."""
        if not self.root.is_dir():
            return ()
        return tuple(path.name for path in self.root.iterdir() if _KEY.match(path.name))
