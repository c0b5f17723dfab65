"""A run of tests that leaves something in the engine is found out."""

import os
import subprocess
import sys
from pathlib import Path

from tests.docker.containers import a_sandbox
from tests.leftovers import left_under
from tests.services.node import ROOT

LEAVES = """
import asyncio
from tests.docker.containers import engine, request
from infra.sandbox.docker.provider import DockerProvider

async def test_it(tmp_path):
    async with DockerProvider(tmp_path, engine()) as provider:
        await provider.create(request())
"""
REMOVES = LEAVES + "        await provider.remove('sb-1')\n"


async def test_what_is_left_is_named_and_what_is_somebody_elses_is_not(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    async with a_sandbox(tmp_path / "data"):
        container, volume = left_under(tmp_path)
        assert container.startswith("container cloche-agent-sb-1-")
        assert volume.startswith("volume cloche-")
        assert left_under(tmp_path / "elsewhere") == []
    assert left_under(tmp_path) == []


def run_of(tmp_path: Path, code: str) -> "subprocess.CompletedProcess[str]":
    tests = tmp_path / "tests"
    tests.mkdir(exist_ok=True)
    (tests / "conftest.py").write_text((ROOT / "tests/conftest.py").read_text())
    (tests / "test_it.py").write_text(code)
    # Not over the names of the real tests: what they import is meant.
    argv = ["-m", "pytest", "-q", "-n", "1", "--basetemp", str(tmp_path / "base"), "-c", str(ROOT / "pyproject.toml")]
    return subprocess.run(
        [sys.executable, *argv, "--rootdir", str(tests), "-p", "no:cacheprovider", str(tests / "test_it.py")],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )


async def test_a_run_that_leaves_a_container_fails_and_says_which(tmp_path: Path) -> None:
    clean = run_of(tmp_path, REMOVES)
    assert clean.returncode == 0, clean.stdout + clean.stderr
    failed = run_of(tmp_path, LEAVES)
    left = left_under(tmp_path / "base")
    for each in left:
        kind, name = each.split()
        subprocess.run(["docker", kind, "rm", "-f", name], check=True, capture_output=True)
    assert failed.returncode == 1, failed.stdout + failed.stderr
    assert "1 passed" in failed.stdout
    assert f"left in the Docker engine after the run: {', '.join(left)}" in failed.stdout
