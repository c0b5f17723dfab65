"""What the log says of a call: enough to understand it, and never what is in the files."""

from typing import Any

import msgspec
import pytest

from contracts import codec, files
from contracts.events.file import EntryKind
from contracts.files import FileRequest
from contracts.payload import Encoding
from services.executor.tool_record import SHOWN, arguments_of, summary_of

SECRET = "what is in a file " * 5000
BRIEF = 1000


@pytest.mark.parametrize(
    ("request_", "kept"),
    [
        (
            files.WriteFile(path="a", content=SECRET, append=True),
            {"path": "a", "characters": len(SECRET), "append": True},
        ),
        (
            files.EditFile(path="a", old=SECRET, new="x" * 300),
            {"old": SECRET[:SHOWN], "old_characters": len(SECRET), "new": "x" * SHOWN, "new_characters": 300},
        ),
        (
            files.EditFile(path="a", old="short", new="", asked_by="me"),
            {"old": "short", "new": "", "replace_all": False},
        ),
        (files.MoveFile(path="a", to="b", to_bytes="Yg=="), {"path": "a", "to": "b", "to_bytes": "Yg=="}),
        (files.GrepFiles(pattern="x", files="*.py"), {"pattern": "x", "files": "*.py", "path": "."}),
    ],
)
def test_arguments_are_kept_in_brief(request_: FileRequest, kept: dict[str, Any]) -> None:
    arguments = arguments_of(request_)
    assert {name: arguments.get(name) for name in kept} == kept
    assert not {"content", "asked_by"} & set(arguments)
    assert len(codec.encode(arguments)) < BRIEF


ENTRY = files.FileEntry(path=SECRET, kind=EntryKind.FILE, size=1, mode=0o644, mtime_us=0)
ANSWERS = (
    files.FileContent(
        path="/workspace/a",
        kind=files.ContentKind.TEXT,
        content=SECRET,
        encoding=Encoding.UTF8,
        bytes=len(SECRET),
        mime="text/plain",
        total_lines=1,
    ),
    files.FileListing(path="/workspace", entries=(ENTRY,) * 3, truncated=True, next=SECRET),
    files.GrepResult(
        path="/workspace",
        matches=(files.GrepMatch(path="/workspace/a", line=1, text=SECRET, before=(SECRET,)),),
        files_searched=2,
        files_matched=1,
        binary_skipped=0,
        truncated=False,
    ),
)


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: type(answer).__name__)
def test_a_summary_counts_and_does_not_quote(answer: msgspec.Struct) -> None:
    summary = summary_of(answer)
    assert summary
    assert SECRET[:50].encode() not in codec.encode(summary)
    assert len(codec.encode(summary)) < BRIEF


def test_every_answer_is_summed_up() -> None:
    """Those that are not here have no room for what is in a file."""
    others = set(files.ANSWERS.values()) - {type(answer) for answer in ANSWERS} - {files.FileEntry}
    assert {name for kind in others for name in kind.__struct_fields__} == {
        "path", "bytes", "size", "created", "replacements", "first_line", "entries", "moved_from",
    }  # fmt: skip
