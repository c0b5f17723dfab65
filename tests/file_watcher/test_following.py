"""Files of a workspace, as the log tells them."""

import os
from pathlib import Path

from contracts.events.file import Action, EntryKind, FileCreated, FileReady
from contracts.spec import CopyDirectory
from tests.file_watcher.rig import changes, facts, following, told, until_told
from tests.file_watcher.shell import sh


async def test_a_new_file_is_told_with_its_content(tmp_path: Path) -> None:
    async with following(tmp_path) as followed:
        await followed.flush()
        sh(followed.root, "printf hello > a.txt")
        await followed.flush()
        ready, created = await facts(followed.bus)
        assert isinstance(ready, FileReady)
        assert isinstance(created, FileCreated)
        assert (created.path, created.facts.size) == ("/workspace/a.txt", 5)
        assert created.facts.blob == created.facts.sha256
        assert await followed.check() == 1


async def test_a_change_is_told_without_anybody_asking(tmp_path: Path) -> None:
    async with following(tmp_path) as followed:
        await followed.flush()
        sh(followed.root, "echo > a.txt")
        await until_told(followed.bus, "a.txt")


async def test_what_was_written_before_anybody_followed_an_empty_workspace_is_told_as_created(tmp_path: Path) -> None:
    async with following(tmp_path, started=False) as followed:
        sh(followed.root, "echo quick > first")
        await followed.start()
        await followed.flush()
        assert await told(followed.bus) == {("created", "first")}


async def test_what_was_copied_into_a_workspace_is_its_beginning_and_no_change(tmp_path: Path) -> None:
    async with following(tmp_path, source=CopyDirectory(path="/x"), started=False) as followed:
        sh(followed.root, "mkdir src; echo 1 > src/main; echo 2 > README")
        await followed.start()
        await followed.flush()
        (ready,) = await facts(followed.bus)
        assert isinstance(ready, FileReady)
        assert ready.files == 3
        sh(followed.root, "echo 3 > src/main")
        await followed.check()
        assert await told(followed.bus) == {("modified", "src/main")}


async def test_a_whole_life_of_files_ends_with_log_manifest_and_disk_agreeing(tmp_path: Path) -> None:
    async with following(tmp_path) as followed:
        sh(followed.root, "mkdir -p a/b/c; echo 1 > a/one; echo 2 > a/b/two; ln -s ../one a/b/link; chmod 700 a/b")
        await followed.check()
        sh(followed.root, "mv a z; echo 3 >> z/one; rm z/b/two; mkdir empty; mkfifo pipe; echo 4 > z/b/c/deep")
        assert await followed.check() == 8
        sh(followed.root, "rm -rf z; echo file > z; chmod 000 empty")
        assert await followed.check() == 3
        sh(followed.root, "rm z; mkdir -p z/y; touch z/y/x")
        assert await followed.check() == 5


async def test_a_moved_directory_is_told_as_moves(tmp_path: Path) -> None:
    async with following(tmp_path) as followed:
        sh(followed.root, "mkdir -p old/deep; echo text > old/deep/file; : > old/empty")
        before = await followed.flush()
        sh(followed.root, "mv old between; mv between new")
        await followed.flush()
        moves = {(each.action, each.moved_from, each.path) for each in await changes(followed.bus, before)}
        assert moves == {
            (Action.MOVED, f"/workspace/old{inside}", f"/workspace/new{inside}")
            for inside in ("", "/deep", "/deep/file", "/empty")
        }
        sh(followed.root, "echo more >> new/deep/file; echo > new/deep/another")
        await followed.check()


async def test_a_directory_in_the_place_of_a_deleted_one_is_no_move(tmp_path: Path) -> None:
    async with following(tmp_path) as followed:
        sh(followed.root, "mkdir old; : > empty")
        before = await followed.flush()
        sh(followed.root, "rmdir old; rm empty; mkdir new; : > none")
        await followed.flush()
        assert await told(followed.bus, before) == {
            ("deleted", "old"),
            ("deleted", "empty"),
            ("created", "new"),
            ("created", "none"),
        }


async def test_an_edit_is_told_with_its_diff_also_after_a_restart(tmp_path: Path) -> None:
    async with following(tmp_path) as followed:
        sh(followed.root, "seq 100 > numbers")
        before = await followed.flush()
        await followed.stop()
        await followed.start()
        sh(followed.root, "sed -i s/^50$/fifty/ numbers")
        await followed.flush()
        (edit,) = await changes(followed.bus, before)
        assert edit.action == Action.MODIFIED
        assert edit.facts is not None
        assert edit.facts.diff is not None
        assert "-50\n+fifty\n" in edit.facts.diff


async def test_what_is_no_small_text_has_no_diff(tmp_path: Path) -> None:
    async with following(tmp_path) as followed:
        sh(
            followed.root,
            "printf 'a\\0b' > binary; printf '\\377' > latin; head -c 70000 /dev/zero | tr '\\0' x > large",
        )
        before = await followed.flush()
        sh(followed.root, "for each in binary latin large; do echo more >> $each; done")
        await followed.flush()
        found = await changes(followed.bus, before)
        assert len(found) == 3
        assert all(each.facts and each.facts.diff is None for each in found)


async def test_names_that_are_not_utf_8_are_told_byte_for_byte(tmp_path: Path) -> None:
    async with following(tmp_path) as followed:
        root = os.fsencode(followed.root)
        os.mkdir(root + b"/\xff")
        Path(os.fsdecode(root + b"/\xff/a\xfeb")).write_text("x")
        os.symlink(b"\xfd", root + b"/link")
        await followed.check()
        spelled = {each.path: each.path_bytes for each in await changes(followed.bus)}
        assert spelled["/workspace/\\xff/a\\xfeb"] is not None
        assert spelled["/workspace/link"] is None


async def test_links_are_told_and_never_followed(tmp_path: Path) -> None:
    async with following(tmp_path) as followed:
        sh(followed.root, "ln -s /etc etc; ln -s /etc/passwd passwd; ln -s . self; ln -s nowhere lost; mkdir d")
        assert await followed.check() == 5
        sh(followed.root, "rmdir d; ln -s /etc d")
        assert await followed.check() == 5
        assert not any("/etc/" in each.path or each.path.count("/") > 2 for each in await changes(followed.bus))


async def test_a_write_through_one_name_of_a_file_is_seen_under_the_other(tmp_path: Path) -> None:
    async with following(tmp_path) as followed:
        sh(followed.root, "mkdir there; echo 1 > here")
        await followed.check()
        sh(followed.root, "ln here there/too")
        await followed.check()
        sh(followed.root, "echo 2 >> there/too")
        await followed.check()
        sh(followed.root, "echo 3 >> here")
        await followed.check()


async def test_nobody_waits_for_a_pipe(tmp_path: Path) -> None:
    async with following(tmp_path) as followed:
        sh(followed.root, "mkfifo pipe; echo x > file")
        await followed.check()
        kinds = {each.path: each.facts.kind for each in await changes(followed.bus) if each.facts}
        assert kinds == {"/workspace/pipe": EntryKind.OTHER, "/workspace/file": EntryKind.FILE}


async def test_the_same_size_and_time_do_not_hide_a_change(tmp_path: Path) -> None:
    async with following(tmp_path) as followed:
        sh(followed.root, "printf one > a; touch -d 2020-01-01 a")
        await followed.check()
        sh(followed.root, "printf two > a; touch -d 2020-01-01 a")
        await followed.check()
