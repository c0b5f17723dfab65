"""Making the container of a record, and making it go. Both can be done again after a crash at any point."""

import asyncio
import secrets
from pathlib import Path

import msgspec

from contracts.errors import Invalid, SandboxCreationFailed, SandboxRemovalFailed
from contracts.spec import Mount, SandboxSpec
from infra.agent_tools import node_tools
from infra.docker.containers import ContainerInfo, Containers
from infra.docker.engine import Engine
from infra.docker.errors import CONFLICT, Refused
from infra.docker.images import ImageInfo
from infra.docker.volumes import Volumes
from infra.sandbox.docker.filling import discard_workspace, make_workspace
from infra.sandbox.docker.idle import place_idle_program
from infra.sandbox.docker.layout import DataFiles
from infra.sandbox.docker.limits import enforcement
from infra.sandbox.docker.mounts import check_mounts
from infra.sandbox.docker.planning import KEY_LABEL, labels, plan, sandbox_user, volume_name
from infra.sandbox.docker.record import Record
from infra.sandbox.shape import shape_of

SHELL = "/bin/sh"
KEY_BYTES = 6
REMOVAL_S = 30.0


class Maker:
    """Knows an engine, and what its images have."""

    def __init__(self, engine: Engine, data: DataFiles) -> None:
        self._engine = engine
        self._data = data
        self._shells: dict[str, str | None] = {}
        self.containers = Containers(engine)
        self._volumes = Volumes(engine)

    async def begin(self, spec: SandboxSpec, image: ImageInfo) -> Record:
        """A fresh record; nothing is made yet. Raises `Invalid` for mounts that no container may have."""
        return Record(
            key=secrets.token_hex(KEY_BYTES),
            shape=shape_of(spec),
            image=spec.docker.image,
            image_id=image.id,
            image_env=image.env,
            image_volumes=image.volumes,
            workspace=spec.workspace.path,
            resources=spec.resources,
            network=spec.network.mode,
            mounts=await self._checked(spec.docker.mounts, spec.workspace.path),
            runtime=spec.docker.runtime,
            user=sandbox_user(),
            enforcement=enforcement(spec, await self._engine.info()),
        )

    async def _checked(self, mounts: tuple[Mount, ...], workspace: str) -> tuple[Mount, ...]:
        own = (self._data.data, Path((await self._engine.info()).root_dir))
        return await asyncio.to_thread(check_mounts, mounts, own, self._engine.address, workspace)

    async def make(self, record: Record, name: str) -> Record:
        """Its directory, volume and container, whichever are not there yet.

        Raises `SandboxCreationFailed` with the engine's words, and for mounts that lead elsewhere by now.
        """
        await self._check_again(record)
        try:
            workspace = await asyncio.to_thread(make_workspace, self._data, record.key)
            own = labels(self._data.home, record.key)
            await self._volumes.create(volume_name(record.key), str(workspace), own)
            container = await self._find(record) or await self._create(record, name)
            shell = await self._shell(record.image_id, container)
        except (Refused, OSError) as error:
            said = error.message if isinstance(error, Refused) else str(error)
            raise SandboxCreationFailed(f"cannot make a container of {record.image}: {said}") from error
        return msgspec.structs.replace(record, container=container, shell=shell)

    async def _check_again(self, record: Record) -> None:
        """The engine follows links anew at each start, and a sandbox may have put one where it was let write."""
        try:
            now = await self._checked(record.mounts, record.workspace)
        except (Invalid, Refused) as error:
            raise SandboxCreationFailed(error.message) from error
        if now != record.mounts:
            raise SandboxCreationFailed("docker.mounts: a symbolic link has taken the place of what is to be mounted")

    async def _create(self, record: Record, name: str) -> str:
        info = await self._engine.info()
        idle = await asyncio.to_thread(place_idle_program, self._data.root, info.architecture)
        tools = await asyncio.to_thread(node_tools, self._data.data)
        return await self.containers.create(plan(record, self._data.home, idle, tools, info), name)

    async def _find(self, record: Record) -> str | None:
        if record.container:
            found = await self.containers.inspect(record.container)
            return None if found is None else found.id
        made = await self.containers.labelled(labels(self._data.home, record.key))
        return made[0].id if made else None

    async def _shell(self, image: str, container: str) -> str | None:
        if image not in self._shells:
            self._shells[image] = SHELL if await self.containers.has_file(container, SHELL) else None
        return self._shells[image]

    async def discard(self, key: str) -> None:
        """Kill and remove all that has this key. Raises `SandboxRemovalFailed` with what is in the way."""
        try:
            for container in await self.containers.labelled({KEY_LABEL: key}):
                await self._remove(container.id)
            await self._volumes.remove(volume_name(key))
            await asyncio.to_thread(discard_workspace, self._data, key)
        except (Refused, OSError) as error:
            said = error.message if isinstance(error, Refused) else str(error)
            raise SandboxRemovalFailed(f"cannot remove what belongs to container {key}: {said}") from error

    async def _remove(self, container: str) -> None:
        try:
            await self.containers.remove(container)
        except Refused as error:
            # Somebody else is removing it at this moment.
            if error.status != CONFLICT or not await self._is_gone(container):
                raise

    async def _is_gone(self, container: str) -> bool:
        try:
            async with asyncio.timeout(REMOVAL_S):
                while await self.containers.inspect(container) is not None:  # noqa: ASYNC110 - elsewhere, not in this loop
                    await asyncio.sleep(0.05)
        except TimeoutError:
            return False
        return True

    async def inspect(self, record: Record) -> ContainerInfo | None:
        return await self.containers.inspect(record.container) if record.container else None

    def workspace(self, record: Record) -> Path:
        return self._data.workspace(record.key)
