"""The first process of a container, started where it is not the first."""

import platform
import subprocess
from pathlib import Path

from infra.sandbox.docker.idle import place_idle_program


def test_outside_a_container_the_idle_program_ends_at_once(tmp_path: Path) -> None:
    program = place_idle_program(tmp_path, platform.machine())
    assert subprocess.run([program], check=False, timeout=10).returncode == 1
