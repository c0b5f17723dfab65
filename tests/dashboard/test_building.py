"""The page is built with whatever node there is, and what is missing is said."""

import fcntl
import shutil
import socket
import time
from pathlib import Path

import pytest

from services.dashboard import build
from tests.dashboard.tools import needs_node


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The sources alone, elsewhere."""
    place = tmp_path / "dashboard"
    shutil.copytree(build.HERE, place, ignore=shutil.ignore_patterns("node_modules", "dist", "__pycache__", ".*"))
    monkeypatch.setattr(build, "HERE", place)
    monkeypatch.setattr(build, "DIST", place / "dist")
    return place


def test_without_node_and_without_pypi_it_says_what_is_missing_and_fails_nothing(
    copied: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, value in {"PATH": str(tmp_path), "UV_OFFLINE": "1", "UV_NO_CACHE": "1", "PIP_NO_INDEX": "1"}.items():
        monkeypatch.setenv(name, value)
    said: list[str] = []
    assert not build.ensure_built(said.append)
    assert "it takes Node.js 20.19 or newer" in said[-1]
    assert not (copied / "dist").exists()


@needs_node
def test_without_a_registry_it_says_so_and_an_older_page_stays(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("npm_config_registry", "http://127.0.0.1:9/")
    monkeypatch.setenv("npm_config_fetch_retries", "0")
    monkeypatch.setenv("npm_config_cache", str(copied / ".cache"))
    (copied / "dist").mkdir()
    (copied / "dist" / "index.html").write_text("older")
    said: list[str] = []
    assert build.ensure_built(said.append)
    assert "the dashboard was not built" in said[-1]
    assert (copied / "dist" / "index.html").read_text() == "older"


@needs_node
def test_a_registry_that_never_answers_keeps_nobody_waiting(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("npm_config_registry", f"http://127.0.0.1:{silent.getsockname()[1]}/")
        monkeypatch.setenv("npm_config_cache", str(copied / ".cache"))
        said: list[str] = []
        assert not build.ensure_built(said.append, patience_s=3)
    assert "is the npm registry reachable?" in said[-1]


def test_whoever_builds_for_long_keeps_nobody_else_waiting(copied: Path) -> None:
    said: list[str] = []
    with (copied / ".build.lock").open("w") as theirs:
        fcntl.flock(theirs, fcntl.LOCK_EX)
        began = time.monotonic()
        assert not build.ensure_built(said.append, patience_s=0.5)
        assert 0.5 <= time.monotonic() - began < 5
    assert said == [
        "the dashboard: waiting for somebody else who is building it",
        "the dashboard was not built: somebody else has been building it all the time",
    ]


def test_a_checkout_that_cannot_be_written_to_is_no_failure(copied: Path) -> None:
    # Root may write anywhere, so the place of the lock is taken.
    (copied / ".build.lock").mkdir()
    said: list[str] = []
    assert not build.ensure_built(said.append)
    assert "the dashboard was not built" in said[-1]


def test_what_was_built_is_built_again_only_when_its_sources_change(copied: Path) -> None:
    assert not build.is_current()
    (copied / "dist").mkdir()
    (copied / "dist" / build.STAMP).write_text(build.digest())
    assert build.is_current()
    (copied / "src" / "app.tsx").write_text("changed")
    assert not build.is_current()


def test_where_it_came_built_nothing_is_done(copied: Path) -> None:
    shutil.rmtree(copied / "src")
    said: list[str] = []
    assert not build.ensure_built(said.append)
    (copied / "dist").mkdir()
    (copied / "dist" / "index.html").write_text("shipped")
    assert build.ensure_built(said.append)
    assert said == []
