"""`run` and `logs` pass every byte of a container's command, and its real exit code."""

import hashlib
from collections.abc import Iterator

import pytest

from tests.cli.shell import Said, Shell, up_in
from tests.images import busybox, require_docker

HUGE = 100 * 1024 * 1024


@pytest.fixture(scope="module")
def cloche(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    require_docker()
    with up_in(tmp_path_factory.mktemp("node")) as shell:
        yield shell


def run(cloche: Shell, *arguments: str, stdin: bytes = b"") -> Said:
    return cloche("run", "--isolation", "docker", "--set", f"docker.image={busybox()}", *arguments, stdin=stdin)


@pytest.mark.parametrize(
    "data",
    [b"", b"no newline", b"\x00\x01\xfe\xff" * 50_000, b"\xf0\x9f\x8e", b"a\r\nb\tc\x1b[31m\n"],
    ids=["empty", "no-newline", "binary", "half-a-character", "control"],
)
def test_bytes_are_identical_through_run_and_again_from_the_log(cloche: Shell, data: bytes) -> None:
    box = f"bytes-{hashlib.sha256(data).hexdigest()[:8]}"
    said = run(cloche, "--id", box, "-i", "--", "sh", "-c", "cat > f; cat f; cat f >&2; exit 3", stdin=data)
    assert said == (3, data, data)
    assert cloche("logs", box) == (0, data, data)


def test_a_line_of_100_megabytes_is_identical_through_run_and_again_from_the_log(cloche: Shell) -> None:
    expected = hashlib.sha256(b"0123456789abcdef" * (HUGE // 16)).hexdigest()
    script = f"yes 0123456789abcde | head -c {HUGE} | tr '\\n' f"
    wanted = ("--isolation", "docker", "--set", f"docker.image={busybox()}")
    assert cloche.digest("run", "--id", "huge", *wanted, "--", "sh", "-c", script) == (0, HUGE, expected)
    assert cloche.digest("logs", "huge") == (0, HUGE, expected)


def test_exit_codes_are_the_commands_own_and_what_is_wrong_with_a_program_is_said(cloche: Shell) -> None:
    made = cloche("create", "--id", "box", "--isolation", "docker", "--set", f"docker.image={busybox()}")
    assert made.code == 0, made.err
    for script, code in (("true", 0), ("exit 255", 255), ("kill -SEGV $$", 139), ("kill -KILL $$", 137)):
        assert cloche("exec", "box", "--", "sh", "-c", script).code == code, script
    missing = cloche("exec", "box", "--", "no-such-program")
    assert (missing.code, b"No such file or directory" in missing.err) == (127, True)
    forbidden = cloche("exec", "box", "--", "/etc/passwd")
    assert (forbidden.code, b"Permission denied" in forbidden.err) == (126, True)
    late = cloche("exec", "box", "--timeout", "300ms", "--", "sh", "-c", "echo begun; sleep 600")
    assert (late.code, late.out) == (124, b"begun\n")
    assert cloche("verify", "box").code == 0


def test_an_image_that_is_not_there_and_cannot_be_had_is_named(cloche: Shell) -> None:
    said = cloche("run", "--isolation", "docker", "--set", "docker.image=cloche-test/none:never", "--", "true")
    assert said.code != 0
    assert b"cloche-test/none:never" in said.err
