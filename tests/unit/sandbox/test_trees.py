import os
from pathlib import Path

import pytest

from contracts.errors import Invalid, SandboxCreationFailed
from infra.sandbox.copying import copy_directory
from infra.sandbox.trees import measure_tree, remove_tree


def test_a_hard_linked_file_is_counted_once(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"1" * 100_000)
    alone = measure_tree(tmp_path).bytes
    for number in range(10):
        os.link(tmp_path / "one", tmp_path / f"link-{number}")
    usage = measure_tree(tmp_path)
    assert (usage.bytes, usage.entries) == (alone, 11)


def test_holes_cost_nothing(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    assert measure_tree(tmp_path).bytes < 1 << 20


def test_removing_what_is_missing_is_fine_and_a_link_is_no_tree(tmp_path: Path) -> None:
    remove_tree(tmp_path / "missing")
    (tmp_path / "target").mkdir()
    (tmp_path / "link").symlink_to("target")
    with pytest.raises(NotADirectoryError):
        remove_tree(tmp_path / "link")
    assert (tmp_path / "target").is_dir()


def test_a_copy_leaves_out_what_is_no_file(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "sub").mkdir(parents=True)
    target.mkdir()
    os.mkfifo(source / "pipe")
    (source / "sub/file").write_text("x")
    copy_directory(source, target, None, 1000)
    assert sorted(str(path.relative_to(target)) for path in target.rglob("*")) == ["sub", "sub/file"]


def test_a_source_that_is_too_large_or_a_link_is_refused(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    target.mkdir()
    (source / "file").write_text("x" * 1001)
    with pytest.raises(SandboxCreationFailed, match="larger"):
        copy_directory(source, target, None, 1000)
    (tmp_path / "link").symlink_to(source)
    with pytest.raises(Invalid):
        copy_directory(tmp_path / "link", target, None, 10_000)
