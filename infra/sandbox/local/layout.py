"""Where a local sandbox keeps what."""

from pathlib import Path
from typing import NamedTuple

from contracts.errors import Invalid
from contracts.ids import SandboxId, is_token

SOCKET_NAME = "init.sock"


class SandboxFiles(NamedTuple):
    root: Path

    @property
    def workspace(self) -> Path:
        return self.root / "workspace"

    @property
    def unfinished_workspace(self) -> Path:
        """Filled here and renamed when whole, so that a crash never leaves half a copy as the workspace."""
        return self.root / "workspace.unfinished"

    @property
    def record(self) -> Path:
        return self.root / "runtime.json"

    @property
    def control(self) -> Path:
        return self.root / "control"

    @property
    def socket(self) -> Path:
        return self.control / SOCKET_NAME

    @property
    def log(self) -> Path:
        return self.root / "bwrap.log"

    @property
    def status(self) -> Path:
        """bubblewrap writes here how the first process ended, whether or not a service is there to see it."""
        return self.root / "status.json"


class DataFiles(NamedTuple):
    data: Path

    @property
    def sandboxes(self) -> Path:
        return self.data / "sandboxes"

    @property
    def trash(self) -> Path:
        """What is being removed. The name is no token, so no sandbox can have it."""
        return self.sandboxes / ".trash"

    @property
    def blanks(self) -> Path:
        """Sandboxes that wait for their specification; each becomes one of the others by a rename."""
        return self.sandboxes / ".blanks"

    @property
    def uid_lock(self) -> Path:
        return self.sandboxes / ".uids.lock"

    @property
    def uid_range(self) -> Path:
        """Absent = all that there are."""
        return self.sandboxes / ".uids"

    def of(self, sandbox: SandboxId) -> SandboxFiles:
        """Raises `Invalid` for an id that is no token, so that no id ever becomes another path."""
        if not is_token(sandbox):
            raise Invalid(f"{sandbox!r} is not a sandbox id")
        return SandboxFiles(self.sandboxes / sandbox)

    def ids(self) -> tuple[SandboxId, ...]:
        if not self.sandboxes.is_dir():
            return ()
        return tuple(sorted(entry.name for entry in self.sandboxes.iterdir() if is_token(entry.name)))
