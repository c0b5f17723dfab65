"""The launcher installs what a use needs, once. Here `uv` only says what it was asked for."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.services.node import ROOT

RUNS, ALL, MCP = "--no-dev", "", "--no-dev --extra mcp"
UV = """#!/bin/sh
echo "$*" >> "$ASKED"
mkdir -p "$UV_PROJECT_ENVIRONMENT/bin"
printf '#!/bin/sh\\necho python "$*"\\n' > "$UV_PROJECT_ENVIRONMENT/bin/python"
chmod +x "$UV_PROJECT_ENVIRONMENT/bin/python"
"""


class Checkout:
    def __init__(self, root: Path) -> None:
        self.root = root / "checkout"
        self.root.mkdir()
        shutil.copy(ROOT / "cloche", self.root / "cloche")
        (self.root / "uv.lock").write_text("version 1")
        self.asked = root / "asked"
        self.tools = root / "tools"
        self.tools.mkdir()
        (self.tools / "uv").write_text(UV)
        (self.tools / "uv").chmod(0o755)
        self.said = ""

    def run(self, *arguments: str, called: Path | None = None) -> str:
        """What it prints; what it asked of `uv` is in `syncs`."""
        done = subprocess.run(
            [called or self.root / "cloche", *arguments],
            capture_output=True,
            text=True,
            check=True,
            env={"PATH": f"{self.tools}:{os.environ['PATH']}", "ASKED": str(self.asked)},
        )
        self.said = done.stderr
        return done.stdout

    def syncs(self) -> list[str]:
        """For each time since the last look that something was installed: what of all there is."""
        asked = self.asked.read_text().splitlines() if self.asked.exists() else []
        self.asked.unlink(missing_ok=True)
        common = "sync --frozen --inexact --quiet --no-progress"
        assert all(line.startswith(common) for line in asked), asked
        return [line.removeprefix(common).strip() for line in asked]


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_an_ordinary_use_installs_what_runs_once_and_passes_its_arguments_on(checkout: Checkout) -> None:
    assert checkout.run("run", "--", "echo", "a  b") == "python -m services.cli run -- echo a  b\n"
    assert checkout.syncs() == [RUNS]
    checkout.run()
    checkout.run("demo")
    assert checkout.syncs() == []


def test_a_first_use_says_what_takes_so_long_and_a_later_one_nothing(checkout: Checkout) -> None:
    checkout.run("ps")
    assert checkout.said == "cloche: first use: installing into .venv from uv.lock (about half a minute)\n"
    checkout.run("ps")
    assert checkout.said == ""


@pytest.mark.parametrize("command", ["test", "bench", "soak"])
def test_what_is_for_developers_installs_their_tools_too(checkout: Checkout, command: str) -> None:
    checkout.run("ps")
    assert checkout.run(command, "-k", "one") == f"python -m services.cli {command} -k one\n"
    assert checkout.syncs() == [RUNS, ALL]
    checkout.run(command)
    checkout.run("ps")
    assert checkout.syncs() == []


def test_what_only_one_command_needs_comes_with_its_first_use(checkout: Checkout) -> None:
    checkout.run("mcp", "--sandbox", "box")
    checkout.run("mcp", "--sandbox", "box")
    checkout.run("ps")
    assert checkout.syncs() == [MCP]


def test_the_tools_bring_what_runs_along(checkout: Checkout) -> None:
    checkout.run("test")
    checkout.run("ps")
    assert checkout.syncs() == [ALL]


def test_another_lock_file_installs_again_for_each(checkout: Checkout) -> None:
    checkout.run("test")
    checkout.syncs()
    (checkout.root / "uv.lock").write_text("version 2")
    checkout.run("ps")
    checkout.run("test")
    assert checkout.syncs() == [RUNS, ALL]


def test_it_may_be_called_by_a_link(checkout: Checkout) -> None:
    link = checkout.tools / "linked"
    link.symlink_to("../checkout/cloche")
    assert checkout.run("ps", called=link) == "python -m services.cli ps\n"
    assert (checkout.root / ".venv" / "bin" / "python").exists()


def test_what_could_not_be_installed_is_tried_again_with_the_certificates_of_the_system(checkout: Checkout) -> None:
    (checkout.tools / "uv").write_text(UV.replace("mkdir", '[ -n "${UV_SYSTEM_CERTS-}" ] || exit 1\nmkdir'))
    checkout.run("ps")
    assert checkout.syncs() == [RUNS, RUNS]
