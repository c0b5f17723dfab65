"""What a sandbox's control group can do, whichever version of control groups the node has."""

from pathlib import Path
from typing import Literal, NamedTuple, Protocol

from msgspec import Struct

from contracts.spec import Resources


class CgroupPlace(Struct, frozen=True, kw_only=True):
    """Directories of one sandbox's groups. Recorded before they are made, so that none is ever forgotten."""

    version: Literal[1, 2]
    paths: dict[str, str]
    """By controller; in version 2 there is one, `unified`."""


class Held(NamedTuple):
    """By what each limit is held; None where the group does not hold it."""

    memory: str | None = None
    cpus: str | None = None
    pids: str | None = None


class Usage(NamedTuple):
    memory_bytes: int | None
    cpu_seconds: float | None
    pids: int | None
    oom_kills: int | None


class Cgroup(Protocol):
    """Every order is idempotent, also for a group that is gone."""

    def create(self, resources: Resources) -> Held: ...

    def entrances(self) -> list[str]:
        """Files into which a process writes `0` to join."""
        ...

    def freeze(self) -> bool:
        """Ask for it; False where the group cannot."""
        ...

    def thaw(self) -> None: ...

    def is_frozen(self) -> bool | None:
        """None where the group cannot tell."""
        ...

    def usage(self) -> Usage: ...

    def members(self) -> set[int]:
        """Processes in the group, by pid."""
        ...

    def remove(self) -> bool:
        """False while something is still in it."""
        ...


def read_number(path: Path) -> int | None:
    """The first number of a group's file; None where the file or the group is missing."""
    try:
        return int(path.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return None


def read_table(path: Path) -> dict[str, int]:
    """A file of `name number` lines; empty where it is missing."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return {}
    return {name: int(number) for name, _, number in (line.partition(" ") for line in lines) if number.isdigit()}


def write_setting(path: Path, value: str) -> bool:
    """False where the kernel refuses: the caller says honestly that the limit is not held."""
    try:
        path.write_text(value)
    except OSError:
        return False
    return True


def remove_group(path: Path) -> bool:
    try:
        path.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def read_members(path: Path) -> set[int]:
    try:
        return {int(line) for line in path.read_text().split()}
    except OSError:
        return set()
