"""Where exports are written."""

import os
import stat
from pathlib import Path

import pytest

from infra.export.sink import sink_to


async def test_what_is_no_regular_file_is_written_to_and_never_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reading = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        async with sink_to(tmp_path / "pipe") as sink:
            await sink.write(b"said")
        assert os.read(reading, 100) == b"said"
    finally:
        os.close(reading)
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert os.listdir(tmp_path) == ["pipe"]


async def test_a_link_goes_on_to_name_the_file_that_is_written(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("real")
    async with sink_to(tmp_path / "link") as sink:
        await sink.write(b"said")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"said"


@pytest.mark.parametrize("name", ["", ".", "..", "/", "sub"])
async def test_a_directory_is_refused_before_anything_is_written(tmp_path: Path, name: str) -> None:
    (tmp_path / "sub").mkdir()
    place = Path(name) if name != "sub" else tmp_path / "sub"
    with pytest.raises(IsADirectoryError):
        async with sink_to(place):
            raise AssertionError("it was opened")
    assert os.listdir(tmp_path) == ["sub"]
