"""A workspace of very many entries costs the others neither time nor memory without bound."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from contracts.events.file import FileError
from infra.blobs import layout
from infra.blobs.reading import find
from infra.settings import Files
from infra.watching import contents, look
from infra.watching.threads import in_thread
from services.file_watcher import decide, follower, teller
from services.file_watcher.remembered import Remembered
from services.file_watcher.told import Told
from services.file_watcher.workspace import Workspace
from tests.file_watcher.mapped import settle
from tests.file_watcher.rig import Following, changes, facts, following, in_log, told
from tests.file_watcher.shell import sh

LABOUR = [(Told, "__init__"), (Told, "same"), (Told, "saw"), (decide, "affected"), (decide, "moves")]
LABOUR += [(decide, "tellings"), (teller, "compare"), (teller, "header_of"), (Workspace, "hidden")]
LABOUR += [(Told, "linked"), (teller, "told"), (teller, "_modified")]
LABOUR += [(follower, "blobs_of"), (follower, "_doubt"), (Remembered, "keep"), (Remembered, "recall")]


async def lose(followed: Following, path: bytes) -> None:
    """Its content, from the store."""
    name = (await in_log(followed.bus))[path].blob
    assert name is not None
    async with await followed.connect("file_watcher") as bus:
        stored = (await find(bus, [name]))[name]
        await bus.api(f"STREAM.MSG.DELETE.{layout.STREAM}", {"seq": stored.entry.seq, "no_erase": True})


@pytest.mark.parametrize(("owner", "name"), LABOUR, ids=[name for _, name in LABOUR])
async def test_what_goes_over_a_whole_tree_keeps_nobody_else_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str
) -> None:
    threads: set[threading.Thread] = set()
    work = getattr(owner, name)

    def seen_at_work(*arguments: Any, **options: Any) -> Any:
        threads.add(threading.current_thread())
        return work(*arguments, **options)

    monkeypatch.setattr(owner, name, seen_at_work)
    monkeypatch.setattr(contents, "WRITTEN_OUT_NS", contents.FRESH_NS)
    async with following(tmp_path) as followed:
        sh(followed.root, "echo 1 > a; mkdir d; echo 2 > d/b")
        await followed.flush()
        sh(followed.root, "mv a d/a; rm d/b; echo hidden > .clocheignore; echo 3 > lost")
        await settle(followed.root / "lost")
        await followed.check()
        await lose(followed, b"lost")
        await followed.stop()
        await followed.start()
        await followed.check()
    assert threads
    assert threading.main_thread() not in threads


async def test_of_too_many_entries_only_so_many_are_followed_and_the_log_says_so(tmp_path: Path) -> None:
    async with following(tmp_path, files=Files(quiet_ms=10, max_entries=10)) as followed:
        await followed.flush()
        sh(followed.root, "for n in $(seq 10 18); do echo > $n; done; mkdir d; echo > d/1; echo > d/2")
        await followed.flush()
        sh(followed.root, "echo more > 19; echo more >> 10")
        await followed.flush()
        assert {each.path for each in await changes(followed.bus)} == {
            *(f"/workspace/{number}" for number in range(10, 19)),
            "/workspace/d",
        }
        (error,) = [fact for fact in await facts(followed.bus) if isinstance(fact, FileError)]
        assert "more than 10 entries" in error.failure.message
        before = await followed.flush()
        sh(followed.root, "rm 11 12 13 14")
        await followed.check()
        assert await told(followed.bus, before) >= {("created", "19"), ("created", "d/1"), ("created", "d/2")}


async def test_one_directory_of_very_many_names_is_listed_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(look, "NAMES_AT_ONCE", 7)
    async with following(tmp_path) as followed:
        sh(followed.root, "mkdir d; for n in $(seq 50); do echo > d/$n; done")
        assert await followed.check() == 51


async def test_a_call_in_a_thread_is_over_before_what_it_uses_is_closed() -> None:
    begun, may_end, ended = asyncio.Event(), threading.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def call() -> None:
        loop.call_soon_threadsafe(begun.set)
        may_end.wait(20)
        ended.set()
        raise OSError

    task = asyncio.create_task(in_thread(call))
    await begun.wait()
    for _ in range(2):
        task.cancel()
        await asyncio.wait({task}, timeout=0.05)
        assert not task.done()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()
