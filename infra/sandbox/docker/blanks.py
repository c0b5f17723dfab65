"""Containers that run and wait for their sandbox. Taking one is a rename, so nobody takes it twice."""

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import msgspec

from contracts.errors import ClocheError, SandboxInvalidState, SandboxStartFailed
from contracts.ids import SandboxId
from contracts.spec import SandboxSpec
from infra.docker.images import ImageInfo
from infra.docker.instance import instance_of
from infra.sandbox.docker.layout import DataFiles
from infra.sandbox.docker.making import Maker
from infra.sandbox.docker.observing import start_container
from infra.sandbox.docker.planning import HOME_LABEL, KEY_LABEL, blank_name
from infra.sandbox.docker.record import Record, load_record, store_record

logger = logging.getLogger(__name__)


class Blanks:
    def __init__(self, maker: Maker, data: DataFiles) -> None:
        self._maker = maker
        self._data = data
        self.in_the_making: set[str] = set()
        """Keys that no record accounts for yet."""

    async def make(self, spec: SandboxSpec, image: ImageInfo) -> None:
        """Raises `Invalid`, `SandboxCreationFailed`, `SandboxStartFailed`; then nothing of it is left."""
        record = await self._maker.begin(spec, image)
        self.in_the_making.add(record.key)
        try:
            record = await self._maker.make(record, blank_name(record.key))
            info = await start_container(self._maker.containers, record.container)
            record = msgspec.structs.replace(record, instance=instance_of(info.id, info.state.started_at))
            await asyncio.to_thread(store_record, self._data.blank(record.shape, record.key), record)
        except BaseException as error:
            # Also when cancelled: a node that ends must not leave what nobody knows of.
            await asyncio.shield(self._discard(record.key))
            if isinstance(error, OSError):
                raise SandboxStartFailed(f"cannot prepare a container: {error}") from error
            raise
        finally:
            self.in_the_making.discard(record.key)

    async def take(self, sandbox: SandboxId, shape: str, image: ImageInfo) -> Record | None:
        """One that runs on that very image becomes the sandbox's record, not ready yet; broken ones are discarded."""
        for blank in await asyncio.to_thread(self._data.blank_files, shape):
            record = await asyncio.to_thread(self._claim, blank, sandbox)
            if record is None:
                continue
            info = await self._maker.inspect(record)
            if record.image_id == image.id and info is not None and info.state.status == "running":
                return record
            await self._discard(record.key)
            await asyncio.to_thread(self._data.record(sandbox).unlink, missing_ok=True)
        return None

    def _claim(self, blank: Path, sandbox: SandboxId) -> Record | None:
        self._data.records.mkdir(mode=0o700, parents=True, exist_ok=True)
        claimed = self._data.record(sandbox)
        try:
            blank.rename(claimed)
        except FileNotFoundError:
            return None
        try:
            return load_record(claimed)
        except SandboxInvalidState:
            # What it was is swept.
            claimed.unlink()
            return None

    async def ready(self) -> dict[str, int]:
        up = await self._running()
        found = await asyncio.to_thread(self._data.blank_files)
        return dict(Counter(path.parent.name for path in found if path.stem in up))

    async def discard(self, keep: Mapping[str, int]) -> None:
        left = Counter(keep)
        for path in await asyncio.to_thread(self._data.blank_files):
            left[path.parent.name] -= 1
            if left[path.parent.name] < 0:
                await self._drop(path)

    async def discard_broken(self) -> None:
        # First the files: what is made meanwhile runs already when its file comes.
        found = await asyncio.to_thread(self._data.blank_files)
        up = await self._running()
        for path in found:
            if path.stem not in up:
                await self._drop(path)

    async def _running(self) -> set[str]:
        containers = await self._maker.containers.labelled({HOME_LABEL: self._data.home})
        return {(each.labels or {}).get(KEY_LABEL, "") for each in containers if each.state == "running"}

    async def _drop(self, blank: Path) -> None:
        # Without its file nobody can take it; when this is cut short, the sweep does the rest.
        try:
            await asyncio.to_thread(blank.unlink)
        except FileNotFoundError:
            return
        await self._discard(blank.stem)

    async def _discard(self, key: str) -> None:
        try:
            await self._maker.discard(key)
        except ClocheError as error:
            logger.warning("left for the sweep: %s", error.message)
