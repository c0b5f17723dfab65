"""The page is built with whatever node there is, and what is missing is said."""

import contextlib
import fcntl
import shutil
import socket
import threading
import time
from pathlib import Path

import pytest

from infra.settings import Settings
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


def _drip(silent: socket.socket) -> None:
    """Answers everybody, and never to the end."""
    with contextlib.suppress(OSError):
        while True:
            connected, _ = silent.accept()
            threading.Thread(target=_drip_into, args=(connected,), daemon=True).start()


def _drip_into(connected: socket.socket) -> None:
    with contextlib.suppress(OSError), connected:
        connected.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000000\r\n\r\n{")
        while True:
            connected.sendall(b" ")
            time.sleep(0.05)


@needs_node
def test_a_first_use_says_what_it_does_and_is_over_in_time_however_slow_the_registry_is(
    copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[tuple[float, str]] = []
    began = time.monotonic()
    with socket.create_server(("127.0.0.1", 0)) as slow:
        threading.Thread(target=_drip, args=(slow,), daemon=True).start()
        monkeypatch.setenv("npm_config_registry", f"http://127.0.0.1:{slow.getsockname()[1]}/")
        monkeypatch.setenv("npm_config_cache", str(copied / ".cache"))
        assert not build.ensure_built(lambda words: said.append((time.monotonic() - began, words)), patience_s=3)
    (begun, first), (ended, last) = said
    assert first == "the dashboard: fetching its packages from the npm registry"
    assert last.startswith("the dashboard was not built: it takes too long; is the npm registry reachable?")
    assert begun < 3 <= ended < 8


@pytest.mark.filterwarnings("ignore:'click:DeprecationWarning")
def test_a_first_use_leaves_half_a_minute_of_two_for_the_rest(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # What the command line is made with warns of itself when it is imported.
    from services.cli import commands_open, commands_system

    assert build.FIRST_USE_S <= 90
    given: list[float] = []
    monkeypatch.setattr(build, "ensure_built", lambda _, patience_s: given.append(patience_s))
    commands_system._have_dashboard(Settings(data=tmp_path))
    monkeypatch.setattr(commands_open, "ensure_built", lambda _, patience_s: given.append(patience_s))
    monkeypatch.setattr(commands_open, "_entrance", lambda _: "http://127.0.0.1:7300/")
    commands_open.open_(only_print=True)
    assert given == [build.FIRST_USE_S] * 2


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
