"""A workspace that begins as one was before: the files come from whoever asks for the sandbox."""

from collections.abc import Callable
from pathlib import Path

from contracts.errors import Invalid
from contracts.spec import ForkOf, SandboxSpec

Fill = Callable[[Path, int | None, int], None]
"""Called in a thread with an empty directory, whose everything in it shall be (None = our own), and how many bytes it
may hold. Raises `Invalid`, `SandboxCreationFailed`, `OSError`."""


def check_fork(spec: SandboxSpec, fill: Fill | None) -> None:
    """Raises `Invalid` for a fork that nobody restores."""
    if isinstance(spec.workspace.source, ForkOf) and fill is None:
        raise Invalid("workspace.source: a fork is not available where there is no log to restore it from")
