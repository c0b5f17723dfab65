"""Removing what a crash left behind and no record accounts for."""

import asyncio
import logging
import time
from collections.abc import Iterator
from pathlib import Path

from contracts.errors import ClocheError, SandboxInvalidState
from infra.docker.engine import Engine
from infra.docker.volumes import Volumes
from infra.sandbox.docker.blanks import Blanks
from infra.sandbox.docker.layout import DataFiles
from infra.sandbox.docker.making import Maker
from infra.sandbox.docker.planning import HOME_LABEL, KEY_LABEL
from infra.sandbox.docker.record import load_record

logger = logging.getLogger(__name__)

YOUNG_S = 60.0
"""What is younger may still be in the making."""


class Sweeper:
    def __init__(self, engine: Engine, maker: Maker, data: DataFiles, blanks: Blanks) -> None:
        self._volumes = Volumes(engine)
        self._maker = maker
        self._data = data
        self._blanks = blanks

    async def sweep(self, young_s: float = YOUNG_S) -> None:
        """Raises `Unavailable`. What cannot be removed is logged and tried again the next time."""
        await self._blanks.discard_broken()
        before = time.time() - young_s
        # First what is there, then what is accounted for: what is made meanwhile is in the second only.
        old = await self._old_keys(before)
        try:
            known = await asyncio.to_thread(self._accounted_for)
        except SandboxInvalidState as error:
            logger.warning("nothing is swept, for a record cannot be read: %s", error.message)
            return
        for key in sorted(old - known - self._blanks.in_the_making):
            logger.info("sweeping container %s, which no record accounts for", key)
            try:
                await self._maker.discard(key)
            except ClocheError as error:
                logger.warning("%s", error.message)

    async def _old_keys(self, before: float) -> set[str]:
        home = self._data.home
        containers = await self._maker.containers.labelled({HOME_LABEL: home})
        volumes = await self._volumes.labelled(HOME_LABEL, home)
        young = {_key(each.labels) for each in containers if each.created >= before}
        young |= {_key(each.labels) for each in volumes if each.created_at and each.created_at.timestamp() >= before}
        there = {_key(each.labels) for each in containers} | {_key(each.labels) for each in volumes}
        return (there | await asyncio.to_thread(self._old_directories, before)) - young - {""}

    def _old_directories(self, before: float) -> set[str]:
        return {key for key in self._data.container_keys() if _changed_at(self._data.container(key)) < before}

    def _accounted_for(self) -> set[str]:
        """Blanks before sandboxes, for that is the way that a record can move meanwhile."""
        return {path.stem for path in self._data.blank_files()} | set(self._sandbox_keys())

    def _sandbox_keys(self) -> Iterator[str]:
        for sandbox in self._data.sandbox_ids():
            record = load_record(self._data.record(sandbox))
            if record is not None:
                yield record.key


def _key(labels: dict[str, str] | None) -> str:
    return (labels or {}).get(KEY_LABEL, "")


def _changed_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return time.time()
