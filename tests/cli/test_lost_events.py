"""Whoever looks at a sandbox of which the store has lost something is told, whatever they look with."""

import asyncio
import json
from pathlib import Path

import pytest

from tests.cli.shell import Shell, up_in
from tests.cli.terminal import at_a_terminal
from tests.gateway.rotten import SANDBOX, spoil, spoil_file


def is_known(shell: Shell, lost: int) -> bool:
    """The auditor reads the whole log a while after its start."""
    return b"sequence %d" % lost in shell("audit").out


def times_told(text: bytes, lost: int) -> int:
    return text.count(b"the log lacks sequence %d to %d: see `cloche audit`" % (lost, lost))


@pytest.mark.timeout(180)
def test_every_command_that_reads_the_past_tells_what_was_lost(tmp_path: Path) -> None:
    lost = asyncio.run(spoil(tmp_path))
    told = [{"first_sequence": lost, "last_sequence": lost}]
    with up_in(tmp_path) as shell:
        while not is_known(shell, lost):
            pass
        cast, page = tmp_path / "session.cast", tmp_path / "session.html"
        for line in (
            ("show", SANDBOX, "--no-pager"),
            ("replay", SANDBOX, "--speed", "max"),
            ("export", SANDBOX, "-o", str(tmp_path / "session.jsonl")),
            ("export", SANDBOX, "--format", "asciicast", "-o", str(cast)),
            ("export", SANDBOX, "--format", "html", "-o", str(page)),
            ("state", SANDBOX),
            ("screen", SANDBOX),
        ):
            said = shell(*line)
            assert said.code == 0, said.err
            assert times_told(said.err, lost) == 1, line
        assert f"the store has lost sequence {lost}" in page.read_text()
        for line in (("state", SANDBOX, "--json"), ("screen", SANDBOX, "--json")):
            assert json.loads(shell(*line).out)["lacking"] == told
            before = shell(*line, "--at", str(lost - 1))
            assert json.loads(before.out)["lacking"] == []
            assert times_told(before.err, lost) == 0
        for keys in ("--keys", "--no-keys"):
            assert times_told(played(shell, keys), lost) == 1


def played(shell: Shell, keys: str) -> bytes:
    """All that a terminal got; what comes after the player has left it is for people to read."""
    with at_a_terminal(shell, "replay", SANDBOX, "--speed", "100", keys) as person:
        if keys == "--keys":
            person.sees("■ ended".encode())
            person.types(b"q")
        assert person.leaves() == 0
        return person.shown.rpartition(b"\x1b[?1049l")[2]


@pytest.mark.timeout(180)
def test_files_and_forks_that_may_be_older_than_that_moment_say_so(tmp_path: Path) -> None:
    before, lost, after = asyncio.run(spoil_file(tmp_path))
    with up_in(tmp_path) as shell:
        while not is_known(shell, lost):
            pass
        for line in (("cat", SANDBOX, "said"), ("ls", SANDBOX), ("tree", SANDBOX), ("diff", SANDBOX)):
            said = shell("files", *line, "--at", str(after))
            assert said.code == 0, said.err
            assert times_told(said.err, lost) == 1, line
            assert line[0] != "cat" or said.out == b"one\n"

        note = b"the log lacks sequence %d to %d: what changed then may be missing here" % (lost, lost)
        earlier = shell("fork", SANDBOX, "--at", str(before), "--id", "earlier")
        assert (earlier.code, note in earlier.err) == (0, False), earlier.err
        older = shell("fork", SANDBOX, "--at", str(after), "--id", "older")
        assert (older.code, note in older.err) == (0, True), older.err
        assert shell("files", "cat", "older", "said").out == b"one\n"
        compared = shell("compare", SANDBOX, "earlier", "--no-pager")
        assert compared.code in (0, 1)
        assert times_told(compared.err, lost) == 1
