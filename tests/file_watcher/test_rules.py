"""What is ignored is neither told nor kept."""

from pathlib import Path

from tests.file_watcher.rig import following, in_log, told
from tests.file_watcher.shell import sh


async def test_leavings_of_editors_are_not_told_and_work_is(tmp_path: Path) -> None:
    async with following(tmp_path) as followed:
        sh(followed.root, "mkdir -p .git node_modules/x; echo > .git/HEAD; echo > node_modules/x/y; echo > .a.swp")
        await followed.flush()
        assert await told(followed.bus) == {
            ("created", path) for path in (".git", "node_modules", "node_modules/x", ".git/HEAD", "node_modules/x/y")
        }


async def test_a_file_of_rules_hides_what_it_names_and_gives_it_back_when_it_goes(tmp_path: Path) -> None:
    async with following(tmp_path) as followed:
        sh(followed.root, "mkdir -p build/deep; echo > build/deep/out; echo > src.py; echo > log.tmp")
        before = await followed.flush()
        sh(followed.root, "printf 'build/\\n*.tmp\\n' > .clocheignore")
        hidden = await followed.flush()
        assert await told(followed.bus, before) == {("created", ".clocheignore")}
        assert set(await in_log(followed.bus)) == {b".clocheignore", b"src.py"}
        sh(followed.root, "echo > build/more; echo > other.tmp; mkdir build/new; echo 2 > src.py")
        quiet = await followed.flush()
        assert await told(followed.bus, hidden) == {("modified", "src.py")}
        sh(followed.root, "rm .clocheignore")
        await followed.check()
        assert ("created", "build/deep/out") in await told(followed.bus, quiet)


async def test_rules_hold_from_the_start_and_across_a_restart(tmp_path: Path) -> None:
    async with following(tmp_path, started=False) as followed:
        sh(followed.root, "mkdir out; echo > out/a; echo > b; echo out > .clocheignore")
        await followed.start()
        await followed.flush()
        assert set(await in_log(followed.bus)) == {b".clocheignore", b"b"}
        await followed.stop()
        sh(followed.root, "echo b >> .clocheignore")
        await followed.start()
        await followed.flush()
        assert set(await in_log(followed.bus)) == {b".clocheignore"}
        assert ("deleted", "b") not in await told(followed.bus)
