"""`-t` into a container: a terminal like any other, and all of it on the record."""

import base64
import json
from collections.abc import Iterator

import pytest

from tests.cli.shell import Shell, up_in
from tests.cli.terminal import Person, at_a_terminal
from tests.images import debian, require_docker

HOME = b"\x1b[H"
"""Back to the first line, to draw over what is there."""


@pytest.fixture(scope="module")
def cloche(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    require_docker()
    with up_in(tmp_path_factory.mktemp("node")) as shell:
        yield shell


def in_a_container(box: str, *command: str) -> list[str]:
    image = f"docker.image={debian()}"
    where = ["--isolation", "docker", "--set", image]
    return ["run", "--id", box, *where, "-t", "-e", "TERM=xterm", "-e", "PS1=ready> ", "--", *command]


def is_on_the_record(cloche: Shell, box: str, person: Person) -> None:
    """Every byte that was typed, and every byte that was shown."""
    events = cloche("events", box, "--json", "--type", "command.input").out.splitlines()
    typed = [json.loads(line)["event"]["data"] for line in events]
    assert b"".join(_bytes(each) for each in typed) == person.typed
    assert cloche("logs", box).out == person.shown
    assert cloche("verify", box).code == 0


def _bytes(data: dict[str, str]) -> bytes:
    return base64.b64decode(data["data"]) if data["encoding"] == "base64" else data["data"].encode()


def test_a_shell_prompts_echoes_is_interrupted_and_resized(cloche: Shell) -> None:
    with at_a_terminal(cloche, *in_a_container("shell", "sh")) as person:
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
        assert person.leaves() == 7
    is_on_the_record(cloche, "shell", person)


def test_an_editor_fills_the_screen_takes_keys_and_writes_the_file(cloche: Shell) -> None:
    with at_a_terminal(cloche, *in_a_container("editor", "sh", "-c", "vi note; cat note")) as person:
        person.sees(b"note")
        person.types(b"ifirst line\rthe second\x1b")
        person.sees(b"the second")
        person.types(b"gg0Cchanged\x1b")
        person.sees(b"changed")
        person.types(b":wq\r")
        person.sees(b"written")
        person.sees(b"changed\r\nthe second\r\n")
        assert person.leaves() == 0
    is_on_the_record(cloche, "editor", person)


def test_a_program_that_draws_itself_again_and_again_is_seen_and_ends_when_told(cloche: Shell) -> None:
    with at_a_terminal(cloche, *in_a_container("top", "top", "-d", "0.2")) as person:
        person.sees(b"Tasks:")
        for _ in range(3):
            person.sees(HOME)
        person.types(b"q")
        assert person.leaves() == 0
    is_on_the_record(cloche, "top", person)


def test_keys_that_engines_take_for_themselves_reach_the_command(cloche: Shell) -> None:
    script = "stty raw -echo; echo ready; head -c 4 | od -An -tx1; stty sane"
    with at_a_terminal(cloche, *in_a_container("keys", "sh", "-c", script)) as person:
        person.sees(b"ready")
        person.types(b"\x10\x11\x10\x1c")
        person.sees(b"10 11 10 1c")
        assert person.leaves() == 0
    is_on_the_record(cloche, "keys", person)
