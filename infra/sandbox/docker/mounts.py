"""Which directories of the host a container may see besides its workspace."""

from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from contracts.errors import Invalid
from contracts.spec import Mount
from infra.docker.finding import SOCKETS, UNIX
from infra.sandbox.docker.idle import INSIDE

SYSTEM = ("/proc", "/sys", "/dev", "/etc", "/root", "/run", "/var/run", "/boot")
ENGINES = ("/var/lib/docker", "/var/lib/containerd")
TAKEN_INSIDE = ("/proc", "/sys", "/dev", INSIDE)


def check_mounts(mounts: Iterable[Mount], own: Iterable[Path], engine: str, workspace: str) -> tuple[Mount, ...]:
    """The mounts with every symbolic link of the host resolved, so that what was checked is what is mounted.

    Raises `Invalid` for the host's system directories, the engine's socket, what is the node's or the engine's `own`,
    or anything that contains one of them; for what is neither a directory nor a plain file; and for a target that is
    taken.
    """
    kept = (*own, Path(engine.removeprefix(UNIX)), *map(Path, (*SOCKETS, *ENGINES)))
    return tuple(_checked(mount, kept, workspace) for mount in mounts)


def _checked(mount: Mount, own: tuple[Path, ...], workspace: str) -> Mount:
    source = _resolved(mount.source)
    for kept in (*own, *map(Path, SYSTEM)):
        for path in {kept, kept.resolve()}:
            if path.is_relative_to(source) or source.is_relative_to(path):
                raise Invalid(f"docker.mounts: {mount.source} cannot be mounted: {kept} is kept from every sandbox")
    _check_target(mount.target, workspace)
    return Mount(source=str(source), target=mount.target, read_only=mount.read_only)


def _resolved(path: str) -> Path:
    try:
        source = Path(path).resolve(strict=True)
    except (OSError, RuntimeError) as error:
        raise Invalid(f"docker.mounts: {path} cannot be mounted: {error}") from error
    if not (source.is_dir() or source.is_file()):
        raise Invalid(f"docker.mounts: {path} cannot be mounted: it is neither a directory nor a plain file")
    return source


def _check_target(target: str, workspace: str) -> None:
    path = PurePosixPath(target)
    if str(path) != target or path.root != "/" or ".." in path.parts or not target.isprintable() or ":" in target:
        raise Invalid(f"docker.mounts: {target!r} must be a plain absolute path")
    for taken in (*TAKEN_INSIDE, workspace):
        if path.is_relative_to(taken) or PurePosixPath(taken).is_relative_to(path):
            raise Invalid(f"docker.mounts: {target} inside is taken by {taken}")
