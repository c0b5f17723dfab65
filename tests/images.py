"""Images for tests, made on this machine: no registry is asked for anything.

Each carries a user `sandbox` (1000:1000) and is kept in the engine under a tag that names its recipe, and as an
archive under `~/.cache/cloche-test`, so that a fresh engine has it within seconds.
"""

import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

CACHE = Path.home() / ".cache/cloche-test"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PACKAGES = ("python3", "git", "procps", "vim-tiny")
SUITE = "bookworm"
OPENHANDS_PACKAGES = ("python3", "git", "procps")
OPENHANDS_SUITE = "trixie"  # the first with a Python (3.13) that is new enough for OpenHands
OPENHANDS_REQUIREMENTS = Path(__file__).parent / "agents/openhands/requirements.txt"
OPENHANDS_LIBRARY = "usr/local/lib/python3.13/dist-packages"
DROPPED = ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/man", "usr/share/locale", "var/log")
APPLETS = ("cat", "sleep", "true", "false", "id", "ls", "wc", "env", "kill", "ps", "printf", "yes", "head")
PASSWD = "root:x:0:0:root:/root:/bin/sh\nsandbox:x:1000:1000:sandbox:/workspace:/bin/sh\n"
GROUP = "root:x:0:\nsandbox:x:1000:\n"

Engine = str | None
"""An engine's address; None = the one that the environment or the usual socket names."""


def require_docker(engine: Engine = None) -> None:
    """Skips the test where no engine answers; in CI, where one must, fails it."""
    problem = _problem(engine)
    if problem is None:
        return
    if os.environ.get("CI") == "true" or os.environ.get("CLOCHE_REQUIRE_DOCKER"):
        pytest.fail(f"no Docker engine answers, and here it must: {problem}")
    pytest.skip(f"no Docker engine answers: {problem}")


@cache
def _problem(engine: Engine) -> str | None:
    try:
        _docker(engine, "version", "--format", "{{.Server.Version}}", timeout=20)
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", b"") or b""
        return said.decode(errors="replace").strip() or str(error)
    return None


@cache
def busybox(engine: Engine = None) -> str:
    """A few megabytes with `/bin/sh` (ash) and all of busybox."""
    return _image("busybox", _busybox_recipe(), _make_busybox, engine)


@cache
def shell_less(engine: Engine = None) -> str:
    """A few commands under `/bin` (see `APPLETS`), and no shell under any name."""
    return _image("shell-less", (*_busybox_recipe(), *APPLETS), _make_shell_less, engine)


@cache
def debian(engine: Engine = None) -> str:
    """A small Debian with bash, dash, python3, git, procps and vi. Made once, in a minute or two, which needs root."""
    return _image("debian", (SUITE, *PACKAGES, *DROPPED, PASSWD), _make_debian, engine)


@cache
def openhands(engine: Engine = None) -> str:
    """A small Debian with Python 3.13 and the OpenHands SDK. Made once, in a few minutes, which needs root."""
    recipe = (OPENHANDS_SUITE, *OPENHANDS_PACKAGES, *DROPPED, PASSWD, OPENHANDS_REQUIREMENTS.read_text())
    return _image("openhands", recipe, _make_openhands, engine)


def _image(name: str, recipe: tuple[str, ...], make: Callable[[Path], None], engine: Engine) -> str:
    require_docker(engine)
    digest = hashlib.sha256("\0".join(recipe).encode()).hexdigest()[:12]
    tag = f"cloche-test/{name}:{digest}"
    with _one_maker(f"{name}-{digest}"):
        if not _is_there(tag, engine):
            archive = _archive(CACHE / f"{name}-{digest}.tar", make)
            _docker(engine, "import", "--change", f"ENV PATH={PATH}", str(archive), tag, timeout=300)
    return tag


@contextmanager
def _one_maker(name: str) -> Iterator[None]:
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _is_there(tag: str, engine: Engine) -> bool:
    try:
        _docker(engine, "image", "inspect", tag, timeout=60)
    except subprocess.CalledProcessError:
        return False
    return True


def _archive(path: Path, make: Callable[[Path], None]) -> Path:
    if path.exists():
        return path
    with tempfile.TemporaryDirectory(prefix="cloche-image-") as directory:
        root = Path(directory, "root")
        root.mkdir()
        make(root)
        unfinished = path.with_suffix(".unfinished")
        _run("tar", "-C", str(root), "--numeric-owner", "--exclude=./dev/*", "-cf", str(unfinished), ".")
        unfinished.rename(path)
    return path


def _busybox_recipe() -> tuple[str, ...]:
    program = shutil.which("busybox")
    assert program is not None, "test images need busybox-static"
    return (hashlib.sha256(Path(program).read_bytes()).hexdigest(), PASSWD)


def _make_busybox(root: Path) -> None:
    _skeleton(root)
    applets = subprocess.run([root / "bin/busybox", "--list"], capture_output=True, check=True, text=True)
    for name in applets.stdout.split():
        _link(root / "bin" / name)


def _make_shell_less(root: Path) -> None:
    _skeleton(root)
    (root / "bin/busybox").rename(root / "bin/cat")
    for name in APPLETS[1:]:
        os.link(root / "bin/cat", root / "bin" / name)


def _skeleton(root: Path) -> None:
    for name in ("bin", "etc", "tmp", "dev", "proc", "sys", "workspace"):
        (root / name).mkdir()
    (root / "tmp").chmod(0o1777)
    shutil.copy(shutil.which("busybox") or "busybox", root / "bin/busybox")
    _write_users(root)


def _link(path: Path) -> None:
    if not path.exists():
        path.symlink_to("busybox")


def _write_users(root: Path) -> None:
    (root / "etc/passwd").write_text(PASSWD)
    (root / "etc/group").write_text(GROUP)


def _make_debian(root: Path) -> None:
    _bootstrap(root, SUITE, PACKAGES)


def _bootstrap(root: Path, suite: str, packages: tuple[str, ...]) -> None:
    if os.geteuid() != 0:
        pytest.skip("a Debian test image is not in the cache, and making it needs root")
    mirror = [given] if (given := os.environ.get("CLOCHE_TEST_MIRROR")) else []
    _run("debootstrap", "--variant=minbase", f"--include={','.join(packages)}", suite, str(root), *mirror)
    for name in DROPPED:
        shutil.rmtree(root / name, ignore_errors=True)
    for name, line in (("passwd", PASSWD), ("group", GROUP)):
        with (root / "etc" / name).open("a") as file:
            file.write(line.splitlines()[1] + "\n")


def _make_openhands(root: Path) -> None:
    _bootstrap(root, OPENHANDS_SUITE, OPENHANDS_PACKAGES)
    _install(root / OPENHANDS_LIBRARY)
    # The root is read-only where this runs, so what is not compiled now is compiled again at every start.
    skipped = ("-x", "py2_raise")  # not of this Python, by its author's intention
    _run("chroot", str(root), "python3", "-m", "compileall", "-q", "-j", "2", *skipped, f"/{OPENHANDS_LIBRARY}")


def _install(library: Path) -> None:
    """From outside, with this machine's own way to a package index: nothing about it gets into the image."""
    wheels = ("--only-binary", ":all:", "--no-binary", "func-timeout")
    aim = ("--python-version", "3.13", "--python-platform", f"{platform.machine()}-manylinux_2_28")
    asked = ("--no-deps", "--requirement", str(OPENHANDS_REQUIREMENTS), "--target", str(library))
    command = (_uv(), "pip", "install", "--quiet", "--no-progress", *aim, *wheels, *asked)
    try:
        _run(*command)
    except subprocess.CalledProcessError:  # behind some proxies only the system's certificates are right
        _run("env", "UV_SYSTEM_CERTS=1", "UV_NATIVE_TLS=1", *command)


def _uv() -> str:
    beside = Path(sys.prefix, "bin/uv")
    program = str(beside) if beside.exists() else shutil.which("uv")
    assert program is not None, "the OpenHands test image needs uv"
    return program


def _docker(engine: Engine, *argv: str, timeout: float) -> None:
    where = () if engine is None else ("--host", engine)
    _run("docker", *where, *argv, timeout=timeout)


def _run(*argv: str, timeout: float = 900) -> None:
    subprocess.run(argv, check=True, capture_output=True, timeout=timeout)


def main() -> None:
    """All of them, before any test waits for one: from nothing they take longer than a test may."""
    for make in (busybox, shell_less, debian, openhands):
        try:
            make()
        except pytest.skip.Exception as skipped:
            print(f"images: {skipped}", file=sys.stderr)


if __name__ == "__main__":
    main()
