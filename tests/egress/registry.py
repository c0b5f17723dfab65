"""A package index for pip, one for npm, and a git repository, as plain files that any web server can serve."""

import base64
import hashlib
import json
import subprocess
import zipfile
from pathlib import Path

METADATA = "Metadata-Version: 2.1\nName: clochedemo\nVersion: 1.2.3\n"
WHEEL = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
WHEEL_NAME = "clochedemo-1.2.3-py3-none-any.whl"
TARBALL = "clochedemo-4.5.6.tgz"


def make_registry(root: Path, base: str) -> None:
    """`base` is where the files of `root` will be found."""
    _pip(root)
    _npm(root, base)
    _git(root)


def _pip(root: Path) -> None:
    index = root / "simple" / "clochedemo"
    index.mkdir(parents=True)
    with zipfile.ZipFile(root / WHEEL_NAME, "w") as wheel:
        wheel.writestr("clochedemo.py", "ANSWER = 42\n")
        wheel.writestr("clochedemo-1.2.3.dist-info/METADATA", METADATA)
        wheel.writestr("clochedemo-1.2.3.dist-info/WHEEL", WHEEL)
        wheel.writestr("clochedemo-1.2.3.dist-info/RECORD", "")
    digest = hashlib.sha256((root / WHEEL_NAME).read_bytes()).hexdigest()
    (index / "index.html").write_text(f'<a href="/{WHEEL_NAME}#sha256={digest}">{WHEEL_NAME}</a>')


def _npm(root: Path, base: str) -> None:
    package = root / "package"
    package.mkdir()
    (package / "package.json").write_text(json.dumps({"name": "clochedemo", "version": "4.5.6"}))
    subprocess.run(["tar", "-czf", root / TARBALL, "-C", root, "package"], check=True, timeout=60)
    digest = base64.b64encode(hashlib.sha512((root / TARBALL).read_bytes()).digest()).decode()
    dist = {"tarball": f"{base}/{TARBALL}", "integrity": f"sha512-{digest}"}
    version = {"name": "clochedemo", "version": "4.5.6", "description": "from the registry of a test", "dist": dist}
    told = {"name": "clochedemo", "dist-tags": {"latest": "4.5.6"}, "versions": {"4.5.6": version}}
    (root / "clochedemo").write_text(json.dumps(told))


def _git(root: Path) -> None:
    work = root / "work"

    def git(*arguments: str) -> None:
        who = ("-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "init.defaultBranch=main")
        subprocess.run(["git", *who, *arguments], check=True, capture_output=True, timeout=60)

    git("init", str(work))
    (work / "README").write_text("cloned through the proxy\n")
    git("-C", str(work), "add", "README")
    git("-C", str(work), "commit", "-m", "first")
    git("clone", "--bare", str(work), str(root / "demo.git"))
    # Git's plain protocol over HTTP needs a list of what there is, and nothing of the server.
    git("-C", str(root / "demo.git"), "update-server-info")
