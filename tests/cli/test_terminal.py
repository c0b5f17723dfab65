"""`-t`: the command's terminal is this terminal."""

from collections.abc import Iterator

import pytest

from tests.cli.shell import PATIENCE_S, Shell, up_in
from tests.cli.terminal import at_a_terminal


@pytest.fixture(scope="module")
def cloche(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    with up_in(tmp_path_factory.mktemp("node")) as shell:
        assert shell("create", "--id", "box").code == 0
        yield shell


def test_a_shell_prompts_echoes_is_interrupted_and_resized(cloche: Shell) -> None:
    with at_a_terminal(cloche, "exec", "box", "-t", "-e", "PS1=ready> ", "--", "sh") as person:
        person.sees(b"ready> ")
        person.types(b"stty size\r")
        person.sees(b"stty size\r\n33 99\r\n")
        person.resizes(44, 111)
        person.types(b"while [ \"$(stty size)\" != '44 111' ]; do :; done; echo re''sized\r")
        person.sees(b"resized\r\n")
        person.types(b"echo beg''un; sleep 600\r")
        person.sees(b"begun\r\n")
        person.types(b"\x03")
        person.sees(b"ready> ")
        person.types(b"echo still $?\r")
        person.sees(b"still 130\r\n")
        person.types(b"exit 7\r")
        assert person.process.wait(PATIENCE_S) == 7


def test_ctrl_d_ends_a_shell(cloche: Shell) -> None:
    with at_a_terminal(cloche, "run", "-t", "-e", "PS1=ready> ", "--", "sh") as person:
        person.sees(b"ready> ")
        person.types(b"\x04")
        assert person.process.wait(PATIENCE_S) == 0


def test_the_terminal_is_whole_again_after_a_command_that_never_ran(cloche: Shell) -> None:
    with at_a_terminal(cloche, "exec", "-t", "box", "--", "no-such-program") as person:
        person.sees(b"no-such-program: No such file or directory")
        assert person.process.wait(PATIENCE_S) == 127


def test_t_without_a_terminal_is_refused_before_anything_runs(cloche: Shell) -> None:
    said = cloche("exec", "box", "-t", "--", "true")
    assert said.code == 2
    assert said.err == b"cloche: -t needs a terminal on standard input: leave it out, or use -i for a pipe\n"
