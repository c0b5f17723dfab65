"""Many commands leave nothing behind, and what is left behind is seen."""

import subprocess
import sys

import msgspec
import pytest

from services.cli.soak.holdings import Holdings
from services.cli.soak.running import SLACK
from tests import images
from tests.services.node import ROOT

PATIENCE_S = 120.0

BEFORE = Holdings(descriptors=50, processes=10, zombies=0, execs=8)


@pytest.mark.parametrize("tier", ["local", "docker"])
def test_nothing_of_many_commands_is_left(tier: str) -> None:
    in_image = ("--docker", images.busybox()) if tier == "docker" else ()
    done = subprocess.run(
        [sys.executable, "-m", "services.cli", "soak", "--commands", "60", *in_image],
        capture_output=True, cwd=ROOT, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert (done.returncode, b"nothing of them was left" in done.stdout) == (0, True), done.stderr


@pytest.mark.parametrize("what", ["descriptors", "processes", "execs"])
def test_what_grows_with_every_command_is_a_leak(what: str) -> None:
    def after(more: int) -> Holdings:
        return msgspec.structs.replace(BEFORE, **{what: getattr(BEFORE, what) + more})

    assert after(SLACK).beyond(BEFORE, SLACK) == []
    assert after(SLACK + 1).beyond(BEFORE, SLACK) == [what]


def test_a_single_zombie_is_a_leak() -> None:
    assert msgspec.structs.replace(BEFORE, zombies=1).beyond(BEFORE, SLACK) == ["zombies"]
