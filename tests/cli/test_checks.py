"""What `cloche test` says of tests that fail."""

import sys
from pathlib import Path

import pytest

from services.cli import checks
from services.cli.checks import MOST_AGAIN, Check, run_checks

UNSTEADY = """
from pathlib import Path
def test_a(tmp_path_factory):
    seen = Path(__file__).with_name("seen")
    before = seen.exists()
    seen.touch()
    assert before
"""


def verdict(root: Path, tests: str, monkeypatch: pytest.MonkeyPatch) -> int:
    (root / "tests").mkdir()
    (root / "tests" / "test_it.py").write_text(tests)
    only = Check("tests", (sys.executable, "-m", "pytest", "-q", "--cache-clear"))
    monkeypatch.setattr(checks, "ROOT", root)
    monkeypatch.setattr(checks, "checks", lambda _arguments: (only,))
    return run_checks(())


def test_one_that_passes_alone_is_named_as_unsteady(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert verdict(tmp_path, UNSTEADY, monkeypatch) == 0
    assert "unsteady, to be mended:\n  tests/test_it.py::test_a" in capfd.readouterr().err


def test_one_that_fails_again_fails_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert verdict(tmp_path, "def test_a():\n    assert False\n", monkeypatch) == 1


def test_many_failures_are_no_accident(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    many = "".join(UNSTEADY.replace("test_a", f"test_{n}").replace("seen", f"seen{n}") for n in range(MOST_AGAIN + 1))
    assert verdict(tmp_path, many, monkeypatch) == 1


def test_a_run_that_fails_though_every_test_passed_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "conftest.py").write_text("def pytest_sessionfinish(session):\n    session.exitstatus = 1\n")
    assert verdict(tmp_path, "def test_a():\n    pass\n", monkeypatch) == 1
