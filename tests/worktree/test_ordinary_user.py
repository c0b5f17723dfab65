"""The same, when everything runs as a user who is nobody special."""

import asyncio
import os

import pytest

from tests.conformance.test_ordinary_user import (
    directory_of_ordinary_user,
    interpreter_for_everyone,
    run_as_ordinary_user,
)

SUITES = tuple(f"tests/worktree/test_{name}.py" for name in ("cage", "checkout", "hostile", "bringing"))
CHOSEN = "cage or bringing or unreadable or inside or nothing_to_do or hooks or filters or elsewhere or borrowed"
"""Where being root or not makes a difference."""

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the suites themselves run as an ordinary user")


async def test_worktrees_work_for_an_ordinary_user() -> None:
    with directory_of_ordinary_user() as base:
        run = [interpreter_for_everyone(), "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", CHOSEN]
        done = await asyncio.to_thread(run_as_ordinary_user, [*run, f"--basetemp={base}/tmp", *SUITES])
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
