"""What runs in the cage has the system read-only, the directories that it was given, and nothing else."""

import asyncio
import os
import tempfile
from pathlib import Path

import pytest

from contracts.errors import SandboxTimeout, Unavailable
from infra.worktree.cage import Bind, Cage, User
from tests.conformance.inside import until

UID = 234_567


def caged(given: Path, *, writable: bool = False, seconds: float = 30.0, file_bytes: int = 1 << 20) -> Cage:
    user = User(UID, UID) if os.geteuid() == 0 else None
    if user:
        os.chown(given, *user)
    return Cage((Bind.of(given, "/given", writable=writable),), user, "/given", seconds=seconds, file_bytes=file_bytes)


def sh(cage: Cage, script: str) -> tuple[int, str]:
    done = cage.run(["sh", "-c", script])
    return done.code, done.out.decode() + done.complaint


def test_it_sees_what_it_was_given_and_no_other_file_of_the_host(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hunter2")
    secret.chmod(0o644)
    given = tmp_path / "given"
    given.mkdir()
    (given / "file").write_text("hello")
    expected = {"etc", "given", "scratch", "usr", "proc", "dev"}
    assert sh(caged(given), "cat file")[1] == "hello"
    assert set(sh(caged(given), "ls /")[1].split()) - {"bin", "sbin", "lib", "lib32", "lib64", "libx32"} == expected
    assert sh(caged(given), "ls /etc")[1] == "gitconfig\n"
    for path in (secret, "/etc/passwd", "/root", "/home", Path.cwd()):
        assert sh(caged(given), f"cat {path} || ls {path}")[0] != 0


def test_it_is_no_root_has_no_network_and_writes_nowhere_but_where_it_may(tmp_path: Path) -> None:
    cage = caged(tmp_path)
    status = sh(cage, "id -u; grep -E '^(CapEff|CapBnd|NoNewPrivs)' /proc/self/status")[1].split()
    assert status == ["1000", "CapEff:", "0" * 16, "CapBnd:", "0" * 16, "NoNewPrivs:", "1"]
    assert sh(cage, "grep -c : /proc/net/dev")[1] == "1\n"
    for place in ("/given/x", "/x", "/usr/x", "/etc/x", "/proc/sys/kernel/core_pattern"):
        assert sh(cage, f"echo x > {place}")[0] != 0, place
    assert sh(caged(tmp_path, writable=True), "echo x > /given/x")[0] == 0
    assert (tmp_path / "x").stat().st_uid == (UID if os.geteuid() == 0 else os.geteuid())


def test_a_git_that_takes_too_long_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    mark = f"{os.getpid()}.{tmp_path.name}"
    with pytest.raises(SandboxTimeout, match="longer than 1 s"):
        sh(caged(tmp_path, seconds=1), f"(setsid sh -c 'exec >&- 2>&-; sleep 1000; : {mark}' &) ; sleep 1000; : {mark}")

    def left() -> bool:
        return any(_mentions(entry, mark.encode()) for entry in Path("/proc").glob("[0-9]*/cmdline"))

    asyncio.run(until(lambda: not left(), "all processes of the cage are gone"))


def _mentions(path: Path, mark: bytes) -> bool:
    try:
        return mark in path.read_bytes()
    except OSError:
        return False


def test_too_much_output_is_cut_and_too_large_a_file_is_not_written(tmp_path: Path) -> None:
    done = caged(tmp_path).run(["sh", "-c", "yes"], most_out=100_000)
    assert (done.truncated, len(done.out)) == (True, 100_000)
    code, _ = sh(caged(tmp_path, writable=True, file_bytes=65_536), "head -c 1000000 /dev/zero > /given/large")
    assert code != 0
    assert (tmp_path / "large").stat().st_size <= 65_536


def test_a_fork_bomb_stays_small(tmp_path: Path) -> None:
    code, said = sh(caged(tmp_path), "for i in $(seq 300); do sleep 20 & done; echo all")
    assert code != 0, said
    assert "all" not in said


def test_what_it_complains_of_cannot_move_a_cursor(tmp_path: Path) -> None:
    assert sh(caged(tmp_path), "printf 'a\\033[2Jb\\rc' >&2")[1] == "a?[2Jb?c"


@pytest.mark.skipif(os.geteuid() != 0, reason="only as root is there somebody to be protected from")
def test_a_directory_that_was_exchanged_since_it_was_looked_at_is_not_entered(tmp_path: Path) -> None:
    given, other = tmp_path / "given", tmp_path / "other"
    given.mkdir()
    other.mkdir()
    cage = caged(given)
    given.rename(tmp_path / "moved")
    given.symlink_to(other)
    with pytest.raises(Unavailable, match="replaced by another directory"):
        cage.run(["true"])


def test_a_place_that_only_its_owner_may_enter_is_reached_all_the_same() -> None:
    with tempfile.TemporaryDirectory() as closed:
        os.chmod(closed, 0o700)
        given = Path(closed, "given")
        given.mkdir()
        assert sh(caged(given), "echo reached") == (0, "reached\n")
