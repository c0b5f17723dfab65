"""A workspace of very many entries costs the others neither time nor memory without bound."""

import threading
from pathlib import Path
from typing import Any

import pytest

from contracts.events.file import FileError
from infra.settings import Files
from services.file_watcher import decide, teller
from services.file_watcher.told import Told
from tests.file_watcher.rig import changes, facts, following, told
from tests.file_watcher.shell import sh

LABOUR = [(Told, "__init__"), (Told, "is_same"), (Told, "saw"), (decide, "affected"), (decide, "moves")]
LABOUR += [(decide, "tellings"), (teller, "compare"), (teller, "header_of")]


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
    async with following(tmp_path) as followed:
        sh(followed.root, "echo 1 > a; mkdir d; echo 2 > d/b")
        await followed.flush()
        sh(followed.root, "mv a d/a; rm d/b")
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
