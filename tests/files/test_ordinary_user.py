"""The same refusals, when the node runs as a user who is nobody special."""

import os

import pytest

from tests.conformance.test_ordinary_user import (
    directory_of_ordinary_user,
    interpreter_for_everyone,
    run_as_ordinary_user,
)

SUITES = ("tests/files/test_escapes.py", "tests/files/test_changing.py")


@pytest.mark.skipif(os.geteuid() != 0, reason="the suites themselves run as an ordinary user")
def test_an_ordinary_user_refuses_the_same() -> None:
    with directory_of_ordinary_user() as base:
        run = [interpreter_for_everyone(), "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        done = run_as_ordinary_user([*run, f"--basetemp={base}/tmp", *SUITES])
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
