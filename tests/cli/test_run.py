"""`run`, `exec` and `logs` pass every byte and the real exit code."""

import hashlib
import os
import signal
import subprocess
from collections.abc import Iterator

import pytest

from tests.cli.command_line import CommandLine
from tests.cli.shell import PATIENCE_S, Shell, up_in
from tests.services.node import ROOT

HUGE = 100 * 1024 * 1024


@pytest.fixture(scope="module")
def cloche(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    with up_in(tmp_path_factory.mktemp("node")) as shell:
        assert shell("create", "--id", "box").code == 0
        yield shell


def test_the_launcher_gives_each_stream_its_own_and_the_commands_own_code(cloche: Shell) -> None:
    done = subprocess.run(
        [ROOT / "cloche", "run", "--", "sh", "-c", "echo out; echo err >&2; exit 3"],
        capture_output=True,
        env=cloche.env,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (3, b"out\n", b"err\n")


@pytest.mark.parametrize(
    ("script", "code"), [("true", 0), ("exit 255", 255), ("kill -SEGV $$", 139), ("kill -KILL $$", 137)]
)
def test_the_exit_code_is_the_commands_own_and_128_more_for_a_signal(cloche: Shell, script: str, code: int) -> None:
    assert cloche("exec", "box", "--", "sh", "-c", script).code == code


def test_a_time_limit_ends_with_124_and_says_so(cloche: Shell) -> None:
    said = cloche("exec", "box", "--timeout", "200ms", "--", "sh", "-c", "echo begun; sleep 600")
    assert (said.code, said.out) == (124, b"begun\n")
    assert said.err == b"cloche: its time limit of 200 ms is over\n"


def test_options_may_stand_on_either_side_of_the_sandbox_and_the_rest_is_the_commands(cloche: Shell) -> None:
    said = cloche(
        "exec", "-e", "A=1", "box", "--cwd", "/tmp", "-e", "B=2", "--", "sh", "-c", "pwd; echo $A$B $*", "-e", "-t"
    )
    assert (said.code, said.out) == (0, b"/tmp\n12 -t\n")
    assert cloche("exec", "box", "echo", "-t", "--", "-i").out == b"-t -- -i\n"


@pytest.mark.parametrize(
    "data",
    [b"", b"no newline", b"\x00\x01\xfe\xff" * 50_000, b"\xf0\x9f\x8e", b"a\r\nb\tc\x1b[31m\n"],
    ids=["empty", "no-newline", "binary", "half-a-character", "control"],
)
def test_bytes_are_identical_through_exec_and_again_from_the_log(cloche: Shell, data: bytes) -> None:
    box = f"bytes-{hashlib.sha256(data).hexdigest()[:8]}"
    said = cloche("run", "--id", box, "-i", "--", "sh", "-c", "tee /dev/stderr", stdin=data)
    assert said == (0, data, data)
    assert cloche("logs", box) == (0, data, data)


def test_a_line_of_100_megabytes_is_identical_through_run_and_again_from_the_log(cloche: Shell) -> None:
    expected = hashlib.sha256(b"0123456789abcdef" * (HUGE // 16)).hexdigest()
    script = f"import sys\nfor _ in range({HUGE} >> 20): sys.stdout.write('0123456789abcdef' * 65536)"
    assert cloche.digest("run", "--id", "huge", "--", "python3", "-c", script) == (0, HUGE, expected)
    assert cloche.digest("logs", "huge") == (0, HUGE, expected)


def test_megabytes_of_input_arrive_whole_from_a_pipe_and_from_a_file(cloche: Shell) -> None:
    data = os.urandom(5 * 1024 * 1024)
    wanted = hashlib.sha256(data).hexdigest().encode()
    assert cloche("exec", "box", "-i", "--", "sha256sum", stdin=data).out.split()[0] == wanted
    file = cloche.data / "input"
    file.write_bytes(data)
    with open(file, "rb") as stdin:
        done = subprocess.run(
            cloche.argv("exec", "box", "-i", "--", "sha256sum"),
            stdin=stdin, capture_output=True, env=cloche.env, timeout=PATIENCE_S, check=False,
        )  # fmt: skip
    assert done.stdout.split()[:1] == [wanted], done.stderr


def test_without_i_the_command_has_an_empty_stdin(cloche: Shell) -> None:
    assert cloche("exec", "box", "--", "cat", stdin=b"not for it").out == b""


def test_a_reader_that_goes_away_ends_it_cleanly(cloche: Shell) -> None:
    line = f"{' '.join(cloche.argv('exec', 'box', '--', 'yes'))} | head -1"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {line}"], capture_output=True, env=cloche.env, timeout=PATIENCE_S, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (141, b"y\n", b"")
    with cloche.begun("events", "box", "-f", "--type", "command.cancelled") as events:
        assert events.stdout is not None
        assert b"nobody reads its output" in events.stdout.readline()


def test_ctrl_c_reaches_the_command_and_ends_with_its_code(cloche: Shell) -> None:
    script = "trap 'echo caught; exit 42' INT; echo up; while :; do sleep 0.05; done"
    with cloche.begun("exec", "box", "--", "sh", "-c", script) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        process.send_signal(signal.SIGINT)
        assert (process.stdout.read(), process.wait(PATIENCE_S)) == (b"caught\n", 42)


def test_a_second_ctrl_c_ends_a_command_that_does_not_listen(cloche: Shell) -> None:
    script = "trap 'echo no' INT TERM; echo up; while :; do sleep 0.05; done"
    with cloche.begun("exec", "box", "--", "sh", "-c", script) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == b"no\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 137


def _ignore_ctrl_c() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def test_a_command_line_in_the_background_of_a_script_ignores_ctrl_c_and_ends_by_sigterm(cloche: Shell) -> None:
    with CommandLine(["events", "box", "-f"], cloche.env, begin=_ignore_ctrl_c) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert cloche("exec", "box", "--", "true").code == 0
        assert process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 130


def test_a_killed_client_leaves_the_command_running_and_on_the_record(cloche: Shell) -> None:
    script = "echo up; while [ ! -e go ]; do sleep 0.05; done; echo later"
    with cloche.begun("exec", "box", "--", "sh", "-c", script) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        process.kill()
        process.wait(PATIENCE_S)
    with cloche.begun("logs", "box", "-f") as follower:
        assert follower.stdout is not None
        assert cloche("exec", "box", "--", "touch", "go").code == 0
        while follower.stdout.readline() != b"later\n":
            pass
    assert b"still running" not in cloche("verify", "box").out
