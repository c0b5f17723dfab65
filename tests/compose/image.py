"""The image of compose.yaml, built without any network from a Debian that was made on this machine."""

import shutil
import subprocess
from pathlib import Path

from tests import images

ROOT = Path(__file__).parents[2]
RECIPE = Path("infra/images/cloche")
PYTHON = "3.11"
"""Of the Debian that it is built on."""
STAGE = "label=cloche.stage=installed"
BUILD_S = 900


def build_context(place: Path) -> Path:
    """What the checkout is now, installed for that Debian, with the files that the image is made by."""
    shutil.copytree(ROOT / RECIPE, place / RECIPE)
    _run(str(ROOT / RECIPE / "install"), str(place / "build/cloche"), PYTHON)
    return place


def build(context: Path, tag: str, version: str) -> None:
    chosen = {"BASE": images.debian(), "VERSION": version}
    arguments = [part for name, value in chosen.items() for part in ("--build-arg", f"{name}={value}")]
    recipe = ("--file", str(context / RECIPE / "Dockerfile"))
    _run("docker", "build", "--quiet", "--network", "none", *recipe, *arguments, "--tag", tag, str(context))


def discard(*tags: str) -> None:
    subprocess.run(["docker", "image", "rm", "--force", *tags], capture_output=True, timeout=120, check=False)
    prune = ["docker", "image", "prune", "--force", "--filter", STAGE]
    subprocess.run(prune, capture_output=True, timeout=120, check=False)


def _run(*argv: str) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=BUILD_S, check=False)
    assert done.returncode == 0, f"{argv[:3]}: {done.stdout[-2000:]}{done.stderr[-4000:]}"
