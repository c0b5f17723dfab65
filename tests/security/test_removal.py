"""A workspace made to be hard to delete or to measure."""

from pathlib import Path

from tests.conformance.inside import a_sandbox
from tests.security.tiers import on_each_tier

HOSTILE = """
import os
os.makedirs("locked/inner/more"); open("locked/inner/file", "w").close()
os.chmod("locked/inner/more", 0); os.chmod("locked/inner", 0o500); os.chmod("locked", 0)
os.mkdir(".lifted-0"); open(".lifted-0/x", "w").close(); open(".lifted-1", "w").close()
os.symlink("OUTSIDE", "out"); os.symlink("OUTSIDE/..", "up"); os.symlink("loop", "loop")
os.mkdir("d"); os.symlink("OUTSIDE", "d/out"); os.mkfifo("pipe")
open(b"name-\\xff\\n", "w").close()
os.link("pipe", "pipe2")
for depth in range(3000):
    os.mkdir("a" * 100)
    os.chdir("a" * 100)
open("bottom", "wb").write(b"1" * 100_000)
"""

MADE = ("locked", ".lifted", "pipe", "name-", "aaa")


@on_each_tier
async def test_a_hostile_workspace_is_measured_and_removed_and_nothing_else_is(tmp_path: Path, name: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("x" * 5_000_000)
    async with a_sandbox(tmp_path / "data", name=name) as inside:
        result = await inside.python(HOSTILE.replace("OUTSIDE", str(outside)))
        assert result.ok, result.err
        usage = await inside.provider.disk_usage("sb-1")
        assert usage.entries > 3000
        assert 100_000 <= usage.bytes < 3000 * 4096 + 2_000_000 + 3_000_000
        await inside.provider.remove("sb-1")
        assert await inside.provider.sandboxes() == ()
        assert [path for path in (tmp_path / "data").rglob("*") if path.name.startswith(MADE)] == []
    assert [path.name for path in outside.iterdir()] == ["kept"]


@on_each_tier
async def test_measuring_goes_on_while_everything_is_moved_about(tmp_path: Path, name: str) -> None:
    script = """
import os
os.makedirs("a/b/c/d/e"); os.mkdir("z")
print("moving", flush=True)
while True:
    os.rename("a/b", "z/b"); os.rename("z/b/c", "c"); os.rename("c", "z/b/c"); os.rename("z/b", "a/b")
"""
    async with a_sandbox(tmp_path, name=name) as inside:
        await inside.start("python3", "-c", script)
        for _ in range(200):
            assert (await inside.provider.disk_usage("sb-1")).entries < 20
