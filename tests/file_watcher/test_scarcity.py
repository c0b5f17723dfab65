"""What cannot be read or watched is told, and the rest goes on."""

import asyncio
import os
from pathlib import Path

import pytest

from tests.bus.servers import nats_in
from tests.conformance.test_ordinary_user import (
    directory_of_ordinary_user,
    interpreter_for_everyone,
    run_as_ordinary_user,
)

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="becomes an ordinary user by itself")
FEW_WATCHES = 'echo 10 > /proc/sys/user/max_inotify_watches && exec "$@"'
NAMESPACE = ("unshare", "--user", "--map-user=1000", "--map-group=1000", "--keep-caps", "sh", "-c", FEW_WATCHES, "sh")


async def play(scene: str, place: Path, *, within: tuple[str, ...] = ()) -> None:
    module = [interpreter_for_everyone(), "-B", "-m", "tests.file_watcher.scarce"]
    async with nats_in(place) as server:
        logins = [f"{user}={server.password(user)}" for user in ("client", "file_watcher", "spawner")]
        with directory_of_ordinary_user() as base:
            command = [*within, *module, scene, str(base), server.url, *logins]
            run = await asyncio.to_thread(run_as_ordinary_user, command)
    assert run.stdout == "done\n", run.stdout + run.stderr


async def test_files_that_cannot_be_read_are_told_once_and_keep_their_place(tmp_path: Path) -> None:
    await play("unreadable", tmp_path)


async def test_rules_that_cannot_be_read_any_more_still_hold(tmp_path: Path) -> None:
    await play("unreadable_rules", tmp_path)


async def test_where_the_kernel_has_no_watches_left_it_says_so_and_looks_again_and_again(tmp_path: Path) -> None:
    await play("few_watches", tmp_path, within=NAMESPACE)
