"""Whoever looks at a sandbox of which the store has lost something is told, whatever they look with."""

import asyncio
from pathlib import Path

import pytest

from tests.cli.shell import Shell, up_in
from tests.gateway.rotten import SANDBOX, spoil


def is_known(shell: Shell, lost: int) -> bool:
    """The auditor reads the whole log a while after its start."""
    return b"sequence %d" % lost in shell("audit").out


@pytest.mark.timeout(180)
def test_every_command_that_reads_the_past_tells_what_was_lost(tmp_path: Path) -> None:
    lost = asyncio.run(spoil(tmp_path))
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
        ):
            said = shell(*line)
            assert said.code == 0
            assert said.err.count(b"the log lacks sequence %d to %d: see `cloche audit`" % (lost, lost)) == 1, line
        assert f"the store has lost sequence {lost}" in page.read_text()
