"""The README's programs run as they stand."""

import asyncio
import os
import re
import sys
from pathlib import Path

from tests.services.node import ROOT, node_in


def python_blocks() -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)


async def test_the_python_example_runs_and_prints_what_a_reader_expects(tmp_path: Path) -> None:
    (program,) = python_blocks()
    async with node_in(tmp_path):
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            program,
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "CLOCHE_DATA": str(tmp_path), "CLOCHE_ISOLATION": "local"},
        )
        out, _ = await process.communicate()
    assert process.returncode == 0
    lines = out.decode().splitlines()
    assert lines[0] == "b'hello\\n' 3"
    told = [line.split()[1] for line in lines[1:]]
    lives = [tag for tag in told if tag.startswith("sandbox.")]
    assert lives[:3] == ["sandbox.creating", "sandbox.created", "sandbox.started"]
    assert "command.completed" in told
