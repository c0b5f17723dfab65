"""What `cloche mcp` needs, and what the other commands must not need."""

import os
import subprocess
import sys
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from services.mcp.clipping import Clipping
from tests.services.node import ROOT


def python(*arguments: str, path: Path = ROOT) -> "subprocess.CompletedProcess[str]":
    env = {**os.environ, "PYTHONPATH": f"{path}:{ROOT}"}
    return subprocess.run(
        [sys.executable, *arguments], env=env, cwd=ROOT, text=True, capture_output=True, timeout=60, check=False
    )


def test_without_the_sdk_it_says_how_to_install_it(tmp_path: Path) -> None:
    (tmp_path / "mcp.py").write_text("raise ModuleNotFoundError(\"No module named 'mcp'\", name='mcp')\n")
    said = python("-m", "services.cli", "mcp", "--sandbox", "sb", path=tmp_path)
    assert (said.returncode, said.stdout) == (2, "")
    assert said.stderr.startswith("cloche: `cloche mcp` needs the MCP SDK: install it with `pip install 'cloche[mcp]'`")
    assert said.stderr.count("\n") == 1


def test_a_profile_that_is_none_is_refused() -> None:
    said = python("-m", "services.cli", "mcp", "--profile", "everything")
    assert (said.returncode, said.stdout) == (2, "")
    assert "'explore', 'code'" in said.stderr


def test_no_other_command_loads_the_sdk() -> None:
    """Nor does the list of all commands: the SDK is a second of imports."""
    program = (
        "import importlib, sys; from services.cli.main import MODULES\n"
        "for module in MODULES: importlib.import_module(f'services.cli.{module}')\n"
        "print(*{'mcp', 'mcp_types', 'pydantic', 'anyio'} & sys.modules.keys())"
    )
    said = python("-c", program)
    assert (said.returncode, said.stdout) == (0, "\n"), said.stderr


@given(st.lists(st.binary(max_size=30)), st.integers(0, 20), st.integers(1, 20))
def test_what_is_kept_of_output_is_how_it_begins_and_how_it_ends(pieces: list[bytes], head: int, tail: int) -> None:
    everything = b"".join(pieces).translate(bytes(97 + n % 26 for n in range(256)))
    kept, at = Clipping(head, tail), 0
    for piece in pieces:
        kept.add(everything[at : at + len(piece)])
        at += len(piece)
    text, size, is_cut = kept.clipped()
    whole = everything.decode()
    assert size == len(whole)
    assert is_cut is (size > head + tail)
    left_out = size - head - tail
    assert text == (f"{whole[:head]}\n[… {left_out} bytes left out …]\n{whole[-tail:]}" if is_cut else whole)
