"""`export` and `import` from the command line, between two nodes."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from contracts.errors import Invalid
from services.cli.exporting import Format, Wanted
from tests.cli.shell import Shell, up_in
from tests.cli.terminal import at_a_terminal
from tests.export.rig import event_lines

NOWHERE = "unix:///nobody/listens.sock"
BORN = "12"
SCRIPT = "printf 'one\\n' > a.txt; echo out; echo err >&2; printf '\\033[31mred\\n'"


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    with up_in(tmp_path_factory.mktemp("here"), DOCKER_HOST=NOWHERE) as shell:
        assert shell("create", "--id", "box").code == 0
        assert shell("exec", "box", "--", "sh", "-c", SCRIPT).code == 0
        assert shell("snapshot", "box").code == 0
        assert shell("rm", "box").code == 0
        yield shell


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    with up_in(tmp_path_factory.mktemp("there"), DOCKER_HOST=NOWHERE) as shell:
        yield shell


def test_a_session_goes_from_one_node_to_another_and_back(here: Shell, there: Shell, tmp_path: Path) -> None:
    file = tmp_path / "box.jsonl.gz"
    said = here("export", "box", "-o", str(file))
    assert said.code == 0, said.err
    assert said.out == b""
    assert b"events" in said.err
    before = there("import", str(tmp_path / "none.gz"))
    assert before.code == 2
    assert b"cannot read" in before.err
    page = tmp_path / "page.html"
    page.write_text("<!doctype html>\n")
    said = there("import", str(page))
    assert (said.code, b"page.html is no export of Cloche; `cloche export" in said.err) == (2, True)
    said = there("import", "--list")
    assert (said.code, said.out, b"nothing was imported yet" in said.err) == (0, b"", True)
    said = there("import", str(file))
    assert (said.code, said.out) == (0, b"box\n"), said.err
    (listed,) = map(json.loads, there("import", "--list", "--json").out.splitlines())
    assert listed["sandbox"] == "box"
    assert b"box\t" in there("import", "--list").out

    for arguments in (
        ("events", "box", "--json"),
        ("events", "box", "--json", "--type", "command"),
        ("logs", "box"),
        ("files", "cat", "box", "a.txt"),
        ("files", "ls", "box", "--json", "--at", BORN),
        ("files", "tree", "box", "--at", BORN),
        ("export", "box", "--format", "asciicast", "-o", "-"),
        ("export", "box", "--format", "html", "-o", "-"),
    ):
        wanted, found = here(*arguments), there(*arguments)
        assert wanted.code == 0, (arguments, wanted.err)
        assert (found.code, found.out) == (0, wanted.out), (arguments, found.err)
    assert there("logs", "box").err.startswith(b"err\n")

    again = tmp_path / "again.jsonl"
    assert there("export", "box", "-o", str(again)).code == 0
    (tmp_path / "first.jsonl").write_bytes(gzip.decompress(file.read_bytes()))
    assert event_lines(again) == event_lines(tmp_path / "first.jsonl")

    for order in (("exec", "box", "--", "true"), ("stop", "box"), ("rm", "box")):
        said = there(*order)
        assert said.code == 2, said
        assert b"was imported from another Cloche: it can only be read" in said.err
    assert b"`ls --at`" in there("files", "ls", "box").err
    assert b"box" not in there("ps", "--all").out
    said = here("import", str(file))
    assert said.code == 2
    assert b"'box' is one of this Cloche" in said.err


def test_an_export_can_be_a_part_and_goes_to_stdout(here: Shell, tmp_path: Path) -> None:
    whole = here("export", "--all", "--no-blobs", "-o", "-")
    lines = [json.loads(line) for line in whole.out.splitlines()]
    sequences = [line["sequence"] for line in lines[1:-1]]
    assert sequences == list(range(1, len(sequences) + 1))
    part = here("export", "box", "--from", "3", "--to", "5", "-o", "-", "--no-blobs")
    header, *_ = map(json.loads, part.out.splitlines())
    assert header["first_sequence"] >= 3
    assert header["last_sequence"] == 5
    later = here("export", "box", "--from", "2100-01-01T00:00:00Z", "-o", "-")
    assert (later.code, b"nothing to export" in later.err) == (2, True)
    assert here("export", "box", "--from", "2000-01-01T00:00:00Z", "-o", "-").code == 0
    unwritable = here("export", "box", "-o", str(tmp_path / "no" / "where.jsonl"))
    assert (unwritable.code, b"cannot write" in unwritable.err) == (2, True)


def test_what_is_not_there_is_said(here: Shell) -> None:
    nobody = here("export", "nobody", "-o", "-")
    assert (nobody.code, nobody.err) == (2, b"cloche: there is no sandbox 'nobody': see `cloche ps --all`\n")
    for kind in ("asciicast", "html"):
        nothing = here("export", "box", "--format", kind, "--exec", "nothing", "-o", "-")
        assert (nothing.code, b"has no command 'nothing'" in nothing.err) == (2, True)


def test_a_terminal_is_not_written_to(here: Shell) -> None:
    with at_a_terminal(here, "export", "box", "-o", "-") as person:
        assert person.leaves() == 2
        assert b"standard output is a terminal" in person.shown
        assert b"cloche_export" not in person.shown


PLAIN = Wanted(
    sandbox="box",
    everything=False,
    output=None,
    kind=Format.JSONL,
    start=None,
    end=None,
    exec_id=None,
    max_idle=None,
    blobs=True,
)


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (PLAIN._replace(sandbox=None), "name a sandbox, or say `--all`"),
        (PLAIN._replace(everything=True), "name a sandbox, or say `--all`"),
        (PLAIN._replace(sandbox="../x"), "is not a sandbox id"),
        (PLAIN._replace(sandbox=None, everything=True, kind=Format.HTML), "shows one sandbox"),
        (PLAIN._replace(exec_id="e"), "are for asciicast and html"),
        (PLAIN._replace(exec_id="*", kind=Format.HTML), "is not the id of a command"),
    ],
)
def test_what_does_not_go_together_is_said(wanted: Wanted, words: str) -> None:
    with pytest.raises(Invalid, match=words):
        wanted.checked()
    assert PLAIN.checked().file == Path("box.jsonl")
