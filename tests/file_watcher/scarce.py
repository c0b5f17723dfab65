"""Scenes that need a process of their own: an ordinary user, and a kernel with few watches.

Run as `python -m tests.file_watcher.scarce <scene> <directory> <url> <user=password>…`; says `done` when all was as it
should be.
"""

import asyncio
import sys
from pathlib import Path

from contracts.events.file import FileError
from infra.bus.connection import Bus, connect
from infra.settings import Files
from tests.file_watcher.rig import Connect, facts, following_on, in_log, until_told
from tests.file_watcher.shell import sh


async def unreadable(connect_as: Connect, place: Path) -> None:
    async with following_on(connect_as, place) as followed:
        sh(followed.root, "echo secret > closed; chmod 0 closed; mkdir shut; echo > shut/in; echo 1 > open")
        await followed.flush()
        sh(followed.root, "chmod 0 shut; echo 2 > open")
        await followed.flush()
        sh(followed.root, "touch closed; echo 3 > open; touch shut")
        await followed.stop()
        await followed.start()
        await followed.flush()
        tree = await _errors(followed.bus)
        assert tree.count(("/workspace/closed", "SANDBOX_PATH_DENIED")) == 2, tree
        assert ("/workspace/shut", "SANDBOX_PATH_DENIED") in tree, tree
        sh(followed.root, "chmod 600 closed; chmod 700 shut; rm shut/in")
        await followed.check()


async def unreadable_rules(connect_as: Connect, place: Path) -> None:
    async with following_on(connect_as, place) as followed:
        sh(followed.root, "mkdir hidden; echo 1 > hidden/a; echo hidden > .clocheignore; echo 1 > shown")
        await followed.flush()
        sh(followed.root, "chmod 0 .clocheignore; echo 2 > hidden/b; echo 2 > shown")
        await followed.flush(manifest=True)
        assert ("/workspace/.clocheignore", "SANDBOX_PATH_DENIED") in await _errors(followed.bus)
        await followed.flush(manifest=True)
        assert (await _errors(followed.bus)).count(("/workspace/.clocheignore", "SANDBOX_PATH_DENIED")) == 1
        assert set(await in_log(followed.bus)) == {b".clocheignore", b"shown"}
        sh(followed.root, "chmod 600 .clocheignore; echo > .clocheignore")
        await followed.check()


async def few_watches(connect_as: Connect, place: Path) -> None:
    async with following_on(connect_as, place, files=Files(quiet_ms=10, rescan_s=0.3)) as followed:
        sh(followed.root, "for d in $(seq 20); do mkdir -p d$d/e; echo > d$d/e/f; done")
        await followed.flush()
        (error,) = await _errors(followed.bus)
        assert error == ("/workspace", "UNAVAILABLE"), error
        sh(followed.root, "for d in $(seq 20); do echo later > d$d/e/g; done")
        for number in (1, 10, 20):
            await until_told(followed.bus, f"d{number}/e/g")
        sh(followed.root, "echo > d7/e/now; rm -r d8")
        await followed.check()
        assert len(await _errors(followed.bus)) == 1


async def _errors(bus: Bus) -> list[tuple[str, str]]:
    return [(fact.path, fact.failure.code) for fact in await facts(bus) if isinstance(fact, FileError)]


SCENES = {"unreadable": unreadable, "unreadable_rules": unreadable_rules, "few_watches": few_watches}


def main(scene: str, directory: str, url: str, *logins: str) -> None:
    passwords = dict(login.split("=", 1) for login in logins)

    async def connect_as(user: str) -> Bus:
        return await connect(url, user, passwords[user], user)

    asyncio.run(SCENES[scene](connect_as, Path(directory)))
    print("done")


if __name__ == "__main__":
    main(*sys.argv[1:])
