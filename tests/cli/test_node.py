"""The node that the command line starts and ends by itself."""

import json
import os
import resource
import signal
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cli.shell import PATIENCE_S, Shell, cleaned


def test_run_with_nothing_up_starts_what_it_needs_and_leaves_no_process_behind(tmp_path: Path) -> None:
    with cleaned(tmp_path / "data") as cloche:
        said = cloche("run", "--id", "alone", "--", "sh", "-c", "echo out; exit 3")
        assert (said.code, said.out, said.err) == (3, b"out\n", b"")
        assert cloche.running() == []
        assert cloche("logs", "alone").out == b"out\n"
        assert cloche.running() == []


def test_a_mistake_with_nothing_up_leaves_no_process_behind(tmp_path: Path) -> None:
    with cleaned(tmp_path / "data") as cloche:
        said = cloche("exec", "nobody", "--", "true")
        assert (said.code, said.err) == (2, b"cloche: there is no sandbox 'nobody': see `cloche ps --all`\n")
        assert cloche.running() == []


def test_up_is_told_once_and_down_ends_it_once(tmp_path: Path) -> None:
    with cleaned(tmp_path / "data") as cloche:
        first = cloche("up", "--detach")
        assert first.code == 0
        assert first.out.startswith(b"up on nats://127.0.0.1:")
        assert cloche("up", "--detach").out == first.out
        assert cloche("down").code == 0
        again = cloche("down")
        assert (again.code, again.err.decode()) == (1, f"cloche: nothing was running on {cloche.data}\n")


def test_what_runs_goes_on_while_the_node_is_down_and_is_found_again(tmp_path: Path) -> None:
    with cleaned(tmp_path / "data") as cloche:
        cloche("create", "--id", "box")
        with cloche.begun("exec", "box", "--", "sh", "-c", "echo up; while [ ! -e go ]; do sleep 0.05; done; echo on"):
            with cloche.begun("logs", "box", "-f") as logs:
                assert logs.stdout is not None
                assert logs.stdout.readline() == b"up\n"
            assert cloche("down").code == 0
        assert cloche("up", "--detach").code == 0
        assert cloche("exec", "box", "--", "touch", "go").code == 0
        with cloche.begun("logs", "box", "-f") as logs:
            assert logs.stdout is not None
            assert [logs.stdout.readline(), logs.stdout.readline()] == [b"up\n", b"on\n"]
        assert json.loads(cloche("verify", "--json").out)["findings"] == []


def test_up_in_the_foreground_takes_the_descriptors_it_may_have_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as stack:
        cloche = stack.enter_context(cleaned(tmp_path / "data"))
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
        try:
            process = stack.enter_context(cloche.begun_anew("up"))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert process.stderr is not None
        assert process.stderr.readline().startswith(b"up on nats://")
        assert resource.prlimit(process.pid, resource.RLIMIT_NOFILE)[0] > 256
        assert resource.prlimit(process.pid, resource.RLIMIT_CORE) == (0, 0)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 0


@pytest.mark.parametrize("arguments", [["up"], ["up", "--detach"], ["run", "--", "true"], ["ps"]], ids=" ".join)
def test_a_data_directory_that_cannot_be_one_is_one_clear_line(tmp_path: Path, arguments: list[str]) -> None:
    file = tmp_path / "file"
    file.write_text("")
    said = Shell(file)(*arguments)
    assert said.code != 0
    assert (said.out, said.err.count(b"\n")) == (b"", 1), said.err
    assert str(file) in said.err.decode()
    assert b"CLOCHE_DATA" in said.err


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")
@pytest.mark.parametrize("arguments", [["up"], ["run", "--", "true"]], ids=" ".join)
def test_a_data_directory_of_somebody_else_is_one_clear_line(tmp_path: Path, arguments: list[str]) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    os.chown(theirs, 65534, 65534)
    said = Shell(theirs)(*arguments)
    assert said.code != 0
    assert said.err.count(b"\n") == 1, said.err
    assert b"belongs to another user" in said.err


def test_command_lines_at_once_share_a_node_and_the_last_one_ends_it(tmp_path: Path) -> None:
    with cleaned(tmp_path / "data") as cloche, ExitStack() as stack:
        begun = [
            stack.enter_context(
                cloche.begun("run", "--", "sh", "-c", f"sleep 0.{number}; echo {number}; exit {number}")
            )
            for number in range(4)
        ]
        ended = [(*process.communicate(timeout=60), process.returncode) for process in begun]
        for number, (out, err, code) in enumerate(ended):
            assert (out, code) == (b"%d\n" % number, number), err
        assert cloche.running() == []


def test_a_node_whose_service_cannot_start_says_why_and_ends(tmp_path: Path) -> None:
    with cleaned(tmp_path / "data") as cloche:
        cloche.data.mkdir(exist_ok=True)
        (cloche.data / "keeper").write_text("in the way")
        said = cloche("run", "--", "true")
        assert said.code != 0
        assert b"executor does not start" in said.err
        assert cloche.running() == []


def test_a_server_that_is_not_there_is_one_clear_line(tmp_path: Path) -> None:
    with cleaned(tmp_path / "data") as cloche:
        cloche("ps")
        cloche.env["CLOCHE_URL"] = "nats://127.0.0.1:1"
        cloche.env["CLOCHE_CREDS"] = str(cloche.data / "secrets")
        said = cloche("ps")
        assert said.code == 1
        assert said.err.startswith(b"cloche: no NATS server answers at nats://127.0.0.1:1")
        assert said.err.count(b"\n") == 1
