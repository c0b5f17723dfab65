"""Reading, by pages; and edits, for whatever text."""

import base64
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from contracts.errors import (
    Conflict,
    Invalid,
    SandboxEditManyMatches,
    SandboxEditNoMatch,
    SandboxFileTooLarge,
    SandboxPathDenied,
)
from contracts.files import MAX_READ_BYTES, MAX_TEXT_FILE, EditFile, ReadFile
from contracts.payload import unpack
from infra.files.editing import edit_file, replaced
from infra.files.reading import read_file
from infra.files.staging import NewFile, Staging
from infra.files.workspace import Parent
from tests.files.workspaces import Ground

SLOWLY = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
TEXTS = st.text(st.sampled_from("ab\n\r é\U0001f600\x01"), max_size=200)


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground(tmp_path)


def put(ground: Ground, content: bytes) -> None:
    (ground.workspace / "file").write_bytes(content)
    ground.give()


def lines_of(content: bytes) -> list[bytes]:
    *whole, rest = content.split(b"\n")
    return [line + b"\n" for line in whole] + ([rest] if rest else [])


@SLOWLY
@given(text=TEXTS, limit=st.integers(1, 7), max_bytes=st.integers(4, 60))
def test_pages_put_together_are_the_file(ground: Ground, text: str, limit: int, max_bytes: int) -> None:
    content = text.encode()
    put(ground, content)
    seen: list[bytes] = []
    offset = 1
    with ground.open() as workspace:
        while True:
            page = read_file(workspace, ReadFile(path="file", offset=offset, limit=limit, max_bytes=max_bytes))
            data = unpack(page.content, page.encoding)
            assert len(data) <= max_bytes
            assert page.bytes == len(content)
            assert page.total_lines == len(lines_of(content))
            assert page.truncated == (page.next_offset is not None) == (page.truncated_by is not None)
            seen.append(data)
            if page.next_offset is None:
                break
            assert page.next_offset == offset + (page.lines or 0) > offset
            offset = page.next_offset
    if all(len(line) <= max_bytes for line in lines_of(content)):
        assert b"".join(seen) == content
    else:
        data.decode()


@SLOWLY
@given(text=TEXTS, offset=st.integers(1, 30), limit=st.integers(1, 30))
def test_a_page_is_just_those_lines(ground: Ground, text: str, offset: int, limit: int) -> None:
    put(ground, text.encode())
    with ground.open() as workspace:
        page = read_file(workspace, ReadFile(path="file", offset=offset, limit=limit))
    wanted = lines_of(text.encode())[offset - 1 : offset - 1 + limit]
    assert unpack(page.content, page.encoding) == b"".join(wanted)
    assert page.lines == len(wanted)


def test_a_line_is_found_behind_many_blocks(ground: Ground) -> None:
    lines = [b"%08d\n" % number for number in range(400_000)]
    put(ground, b"".join(lines))
    with ground.open() as workspace:
        page = read_file(workspace, ReadFile(path="file", offset=350_000, limit=2))
    assert page.content == "00349999\n00350000\n"
    assert page.total_lines == 400_000


@pytest.mark.parametrize(
    ("content", "kind", "mime"),
    [
        (b"\x89PNG\r\n\x1a\n" + b"\0" * 20, "image", "image/png"),
        (b"\xff\xd8\xff\xe0" + b"x" * 20, "image", "image/jpeg"),
        (b"GIF89a" + b"\0" * 20, "image", "image/gif"),
        (b"RIFF\x10\0\0\0WEBPVP8 ", "image", "image/webp"),
        (b"BM\x10\0\0\0\0\0\0\0", "image", "image/bmp"),
        (b"text, and then \0", "binary", "application/octet-stream"),
        (b"PNG is a format\n", "text", "text/plain"),
        (b"caf\xe9\n", "text", "text/plain"),
        (b"", "text", "text/plain"),
    ],
)
def test_what_a_file_is_its_content_says(ground: Ground, content: bytes, kind: str, mime: str) -> None:
    put(ground, content)
    with ground.open() as workspace:
        page = read_file(workspace, ReadFile(path="file"))
    assert (page.kind, page.mime, page.bytes) == (kind, mime, len(content))
    assert unpack(page.content, page.encoding) == content
    if kind != "text":
        assert base64.b64decode(page.content) == content


@pytest.mark.parametrize(("head", "size"), [(b"\0", MAX_READ_BYTES + 1), (b"text", MAX_TEXT_FILE + 1)])
def test_what_is_too_large_says_its_size(ground: Ground, head: bytes, size: int) -> None:
    put(ground, head.ljust(10_000))
    os.truncate(ground.workspace / "file", size)
    with ground.open() as workspace, pytest.raises(SandboxFileTooLarge) as refused:
        read_file(workspace, ReadFile(path="file"))
    assert refused.value.details["size"] == str(size)


def test_control_characters_still_fit_into_a_message(ground: Ground) -> None:
    put(ground, b"\x01" * MAX_READ_BYTES)
    with ground.open() as workspace:
        page = read_file(workspace, ReadFile(path="file", max_bytes=MAX_READ_BYTES))
    assert unpack(page.content, page.encoding) == b"\x01" * MAX_READ_BYTES
    assert page.encoding == "base64"


@settings(max_examples=500, deadline=None)
@given(
    before=st.text("ab", max_size=6),
    old=st.text("ab", min_size=1, max_size=3),
    after=st.text("ab", max_size=6),
    new=st.text("abc", max_size=3),
)
def test_an_edit_replaces_what_is_there_once_and_only_that(before: str, old: str, after: str, new: str) -> None:
    content = before + old + after
    places = [at for at in range(len(content)) if content.startswith(old, at)]
    if len(places) == 1:
        done = replaced(content.encode(), old.encode(), new.encode(), everywhere=False)
        assert (done.data.decode(), done.replacements) == (before + new + after, 1)
    else:
        with pytest.raises(SandboxEditManyMatches):
            replaced(content.encode(), old.encode(), new.encode(), everywhere=False)
    everywhere = replaced(content.encode(), old.encode(), new.encode(), everywhere=True)
    assert everywhere.data.decode() == content.replace(old, new)
    assert everywhere.replacements == content.count(old)
    with pytest.raises(SandboxEditNoMatch):
        replaced(content.encode(), b"x" + old.encode(), new.encode(), everywhere=True)


def test_a_short_text_that_is_there_often_does_not_become_endless() -> None:
    data, new = b"a" * 1_000_000, b"b" * 900_000
    with pytest.raises(SandboxFileTooLarge) as refused:
        replaced(data, b"a", new, everywhere=True)
    assert refused.value.details["size"] == str(1_000_000 * 900_000)
    assert len(replaced(data, b"a", b"b" * 16, everywhere=True).data) == 16_000_000


@SLOWLY
@given(before=TEXTS, old=st.text(min_size=1, max_size=5), new=TEXTS, after=TEXTS)
def test_an_edit_on_disk_is_the_edit_of_the_text(ground: Ground, before: str, old: str, new: str, after: str) -> None:
    old = "«" + old + "»"
    put(ground, (before + old + after).encode())
    (ground.workspace / "file").chmod(0o750)
    with ground.open() as workspace:
        done = edit_file(workspace, ground.staging, EditFile(path="file", old=old, new=new))
    assert (ground.workspace / "file").read_bytes() == (before + new + after).encode()
    assert (ground.workspace / "file").stat().st_mode & 0o777 == 0o750
    assert done.first_line == before.count("\n") + 1


class WrittenMeanwhile(Staging):
    """Somebody writes the file after an edit has read it."""

    def __init__(self, directory: Path, write: Callable[[], object]) -> None:
        super().__init__(directory)
        self._write = write

    @contextmanager
    def new_file(self, target: Parent) -> Iterator[NewFile]:
        self._write()
        with super().new_file(target) as new:
            yield new


@pytest.mark.parametrize("how", ["in place", "by another file", "by none"])
def test_an_edit_does_not_undo_what_the_sandbox_wrote_meanwhile(ground: Ground, how: str) -> None:
    put(ground, b"old text")
    file, other = ground.workspace / "file", ground.workspace / "other"
    other.write_bytes(b"new text")
    writes: dict[str, Callable[[], object]] = {
        "in place": lambda: file.write_bytes(b"new text"),
        "by another file": lambda: other.rename(file),
        "by none": file.unlink,
    }
    staging = WrittenMeanwhile(ground.staging.directory, writes[how])
    with ground.open() as workspace, pytest.raises(Conflict):
        edit_file(workspace, staging, EditFile(path="file", old="old", new="edited"))
    assert not file.exists() if how == "by none" else file.read_bytes() == b"new text"
    assert not os.listdir(staging.directory)


def test_an_edit_of_nothing_is_refused(ground: Ground) -> None:
    put(ground, b"same")
    with ground.open() as workspace, pytest.raises(Invalid):
        edit_file(workspace, ground.staging, EditFile(path="file", old="same", new="same"))


def test_a_file_of_somebody_else_is_not_read(ground: Ground) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root has files of several owners")
    put(ground, b"mine")
    os.chown(ground.workspace / "file", 0, 0)
    with ground.open() as workspace, pytest.raises(SandboxPathDenied):
        read_file(workspace, ReadFile(path="file"))
