"""Where inside a sandbox its workspace may be."""

from pathlib import PurePosixPath

from contracts.errors import Invalid

_TAKEN = frozenset(
    {
        *("usr", "etc", "proc", "dev", "sys", "run", "tmp", "var", "boot"),
        *("bin", "sbin", "lib", "lib32", "lib64", "libx32"),
    }
)


def check_workspace_path(path: str) -> None:
    """Raises `Invalid` for a place that is the system's own."""
    parts = PurePosixPath(path).parts[1:]
    plain = path == str(PurePosixPath("/", *parts)) and path.isprintable() and ":" not in path
    if not parts or ".." in parts or parts[0] in _TAKEN or not plain:
        raise Invalid(f"workspace.path: {path!r} must be a plain absolute path outside the system's directories")
