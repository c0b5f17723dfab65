"""The same behaviour, when everything runs as a user who is nobody special."""

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ORDINARY = 65_534
ROOT = Path(__file__).parents[2]
SUITES = ("tests/conformance", "tests/security")

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the suites themselves run as an ordinary user")


def can_be_run_by_everyone(interpreter: str) -> bool:
    try:
        run = subprocess.run([interpreter, "-c", ""], user=ORDINARY, group=ORDINARY, extra_groups=[], check=False)
    except PermissionError:
        return False
    return run.returncode == 0


def interpreter_for_everyone() -> str:
    """Ours may lie in a home directory that nobody else can enter; then the system's of the same version."""
    same = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for candidate in (sys.executable, shutil.which(same, path="/usr/bin:/usr/local/bin")):
        if candidate and can_be_run_by_everyone(candidate):
            return candidate
    raise AssertionError(f"there is no {same} that an ordinary user can run")


def run_suites_as_ordinary_user(marked: str, base: Path) -> subprocess.CompletedProcess[str]:
    run = [interpreter_for_everyone(), "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    return run_as_ordinary_user([*run, "-m", marked, f"--basetemp={base}/tmp", *SUITES])


def run_as_ordinary_user(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=ROOT,
        user=ORDINARY,
        group=ORDINARY,
        extra_groups=[],
        env={"PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )


@contextmanager
def directory_of_ordinary_user() -> Iterator[Path]:
    # Not below pytest's own temporary directory, which only its owner may enter.
    base = Path(tempfile.mkdtemp(prefix="cloche-ordinary-"))
    os.chown(base, ORDINARY, ORDINARY)
    try:
        yield base
    finally:
        shutil.rmtree(base)


async def check(marked: str) -> None:
    with directory_of_ordinary_user() as base:
        run = await asyncio.to_thread(run_suites_as_ordinary_user, marked, base)
    assert run.returncode == 0, run.stdout + run.stderr
    assert " passed" in run.stdout


async def test_all_behaviours_hold_for_an_ordinary_user() -> None:
    await check("not alone")


@pytest.mark.alone
async def test_all_limits_hold_for_an_ordinary_user() -> None:
    await check("alone")


START = """
import asyncio, sys
from pathlib import Path
from contracts.errors import SandboxStartFailed
from infra.sandbox.providers import load_provider
from tests.conformance.inside import request

async def main():
    async with load_provider("local", Path(sys.argv[1])) as provider:
        await provider.create(request("sb-1"))
        try:
            await provider.start("sb-1")
        except SandboxStartFailed as error:
            print(error, (await provider.inspect("sb-1")).state)

asyncio.run(main())
"""


async def test_where_user_namespaces_are_forbidden_the_error_says_what_to_do() -> None:
    forbid = 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"'
    enter = ["unshare", "--user", "--map-user=1000", "--map-group=1000", "--keep-caps", "sh", "-c", forbid, "sh"]
    with directory_of_ordinary_user() as base:
        start = [*enter, interpreter_for_everyone(), "-B", "-c", START, str(base)]
        run = await asyncio.to_thread(run_as_ordinary_user, start)
    assert "sysctl user.max_user_namespaces" in run.stdout, run.stderr
    assert run.stdout.endswith("stopped\n")
