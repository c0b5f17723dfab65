"""`cloche devcontainer init`, and what `cloche doctor` says of the tier."""

import json
import os
import subprocess
import sys
from pathlib import Path


def cloche(*argv: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "services.cli", *argv],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **env},
        check=False,
    )


def test_init_writes_a_configuration_and_says_what_next(tmp_path: Path) -> None:
    done = cloche("devcontainer", "init", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "node:22-slim" in (tmp_path / ".devcontainer/devcontainer.json").read_text()
    assert f"workspace.source.path={tmp_path}" in done.stdout


def test_init_leaves_a_configuration_that_is_there(tmp_path: Path) -> None:
    config = tmp_path / ".devcontainer/devcontainer.json"
    config.parent.mkdir()
    config.write_text("mine")
    done = cloche("devcontainer", "init", str(tmp_path))
    assert done.returncode == 2
    assert str(config) in done.stderr
    assert config.read_text() == "mine"


def test_init_of_a_directory_that_is_not_there_is_one_clear_line(tmp_path: Path) -> None:
    done = cloche("devcontainer", "init", str(tmp_path / "nowhere"))
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "nowhere").exists()


def test_doctor_tells_how_to_get_the_cli_and_does_not_fail_for_it(tmp_path: Path) -> None:
    given = {"CLOCHE_DEVCONTAINER_CLI": str(tmp_path / "nowhere"), "CLOCHE_DATA": str(tmp_path / "data")}
    done = cloche("doctor", "--json", **given)
    findings = {found["what"]: found for found in map(json.loads, done.stdout.splitlines())}
    assert findings["devcontainer"]["ok"]
    assert "npm install -g @devcontainers/cli" in findings["devcontainer"]["said"]
