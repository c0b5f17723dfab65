"""Where the keeper of a data directory keeps things."""

from pathlib import Path
from typing import NamedTuple

from contracts.errors import Invalid
from contracts.ids import is_token


class Layout(NamedTuple):
    root: Path

    @classmethod
    def of(cls, data_dir: Path) -> "Layout":
        return cls(data_dir / "keeper")

    @property
    def lock(self) -> Path:
        return self.root / "lock"

    @property
    def socket(self) -> Path:
        return self.root / "keeper.sock"

    @property
    def log(self) -> Path:
        return self.root / "keeper.log"

    @property
    def execs(self) -> Path:
        return self.root / "execs"

    def exec_dir(self, exec_id: str) -> Path:
        """Raises `Invalid` for an id that is no safe file name."""
        if not is_token(exec_id):
            raise Invalid(f"{exec_id[:80]!r} is no exec id")
        return self.execs / exec_id

    def prepare(self) -> None:
        """Makes the directories, for the owner only."""
        self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.root.chmod(0o700)
        self.execs.mkdir(exist_ok=True, mode=0o700)
