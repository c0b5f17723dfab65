"""Workspaces for tests of file operations: an inside, and an outside that must stay as it is."""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from contracts.spec import Permissions
from infra.files.beneath import Way
from infra.files.staging import Staging
from infra.files.workspace import EVERYTHING, Workspace

INSIDE = "/workspace"
SECRET = b"the secret of the host\n"
SANDBOX_UID = 54321
"""Whose the workspace is when tests run as root."""


class Ground:
    """`host/workspace` is what the sandbox has; the rest of `host` is what it must never reach."""

    def __init__(self, tmp_path: Path) -> None:
        self.host = tmp_path / "host"
        self.workspace = self.host / "workspace"
        self.outside = self.host / "outside"
        self.staging = Staging(self.host / "staging")
        self.workspace.mkdir(parents=True)
        self.outside.mkdir()
        (self.outside / "secret").write_bytes(SECRET)
        (self.outside / "directory").mkdir()
        (self.outside / "directory/secret").write_bytes(SECRET)
        self.staging.prepare()
        self.give()

    def give(self) -> None:
        """Everything inside to the sandbox's user."""
        if os.geteuid() != 0:
            return
        for root, directories, files in os.walk(self.workspace):
            for name in [".", *directories, *files]:
                path = os.path.join(root, name)
                if os.lstat(path).st_nlink == 1 or os.path.isdir(path):
                    os.chown(path, SANDBOX_UID, SANDBOX_UID, follow_symlinks=False)

    @contextmanager
    def open(self, way: Way = Way.OPENAT2, permissions: Permissions = EVERYTHING) -> Iterator[Workspace]:
        staging = self.staging.directory
        with Workspace.open(str(self.workspace), INSIDE, permissions, way=way, staging=staging) as workspace:
            yield workspace

    def fingerprint(self) -> str:
        """Of everything outside: names, kinds, modes, owners, contents."""
        digest = hashlib.sha256()
        for root, directories, files in os.walk(self.outside):
            directories.sort()
            for name in sorted([".", *directories, *files]):
                path = os.path.join(root, name)
                info = os.lstat(path)
                digest.update(f"{path} {info.st_mode} {info.st_uid} {info.st_size}".encode())
                if os.path.isfile(path):
                    digest.update(Path(path).read_bytes())
        return digest.hexdigest()
