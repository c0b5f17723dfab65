"""How far something has come is told to whoever looks, and to nobody else."""

import io
import os
import pty
import sys

import pytest

from services.cli import progress_line
from services.cli.progress_line import ERASED, ProgressLine


def test_a_terminal_is_told_and_left_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_line, "EVERY_S", 0)
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "rb", buffering=0) as seen, os.fdopen(theirs, "w", encoding="utf-8") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        with ProgressLine("judging the log") as line:
            line.clear()
            line.at(41_000, 200_000)
        expected = f"{ERASED}judging the log [####----------------] 41,000 of 200,000 (20 %){ERASED}"
        shown = b""
        # A terminal hands over in as many pieces as it likes.
        while len(shown) < len(expected):
            shown += seen.read(1000)
        assert shown.decode() == expected


def test_a_pipe_hears_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_line, "EVERY_S", 0)
    pipe = io.StringIO()
    monkeypatch.setattr(sys, "stderr", pipe)
    with ProgressLine("judging the log") as line:
        line.at(1, 2)
    assert pipe.getvalue() == ""
