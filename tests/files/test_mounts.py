"""What is mounted inside a workspace is another world, even from the same file system."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from infra.files.beneath import Way
from tests.files.workspaces import SECRET, Ground
from tests.services.node import ROOT

SCRIPT = """
import os, subprocess, sys
from pathlib import Path
from contracts.errors import ClocheError
from infra.files.beneath import Way
from infra.files.workspace import Workspace
from tests.files.verbs import VERBS

class Ground:
    host = Path(sys.argv[1])
    staging = __import__("infra.files.staging", fromlist=["Staging"]).Staging(host / "staging")

inside = Ground.host / "workspace"
subprocess.run(["mount", "--make-rprivate", "/"], check=True)
subprocess.run(["mount", "--bind", Ground.host / "outside", inside / "bound"], check=True)
subprocess.run(["mount", "-t", "tmpfs", "none", inside / "memory"], check=True)
(inside / "memory/secret").write_bytes(b"the secret of the host")
assert (inside / "bound/secret").exists()
for path in ("bound/secret", "memory/secret", "bound", "memory", "link/secret"):
    for verb, act in VERBS.items():
        with Workspace.open(str(inside), "/workspace", way=Way(sys.argv[2])) as workspace:
            try:
                answer = act(Ground, workspace, path, None)
            except ClocheError as error:
                print(path, verb, error.code)
            else:
                print(path, verb, "DONE", answer)
with Workspace.open(str(inside), "/workspace", way=Way(sys.argv[2])) as workspace:
    print("grep", VERBS["grep"](Ground, workspace, ".", None).matches)
    print("list", [entry.path for entry in VERBS["list"](Ground, workspace, ".", None).entries])
    try:
        VERBS["remove"](Ground, workspace, "above", None)
    except ClocheError as error:
        print("remove", error.code)
"""


@pytest.mark.parametrize("way", Way)
def test_a_mount_point_is_not_crossed(tmp_path: Path, way: Way) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root mounts")
    ground = Ground(tmp_path)
    for name in ("bound", "memory"):
        (ground.workspace / name).mkdir()
    (ground.workspace / "link").symlink_to("bound")
    ground.give()
    before = ground.fingerprint()
    done = subprocess.run(
        ["unshare", "--mount", sys.executable, "-c", SCRIPT, str(ground.host), way],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) > 60
    assert [line for line in lines if "DONE" in line] == []
    assert SECRET.decode().strip() not in done.stdout
    assert ground.fingerprint() == before
    assert "list ['/workspace/bound', '/workspace/link', '/workspace/memory']" in lines
