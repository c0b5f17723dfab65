"""A real keeper and real containers, for one test."""

import contextlib
import secrets
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiodocker
from aiodocker.containers import DockerContainer

from infra.docker.connecting import connect
from infra.docker.finding import find_engine
from infra.docker.instance import instance_of
from infra.target import DockerTarget
from tests import images
from tests.keeper.rig import Rig, keeper_of

USER = "1000:1000"
LABEL = "cloche.test"


def engine() -> str:
    images.require_docker()
    address = find_engine()
    assert address is not None
    return address


class Box:
    """A running container, hardened as sandboxes are."""

    def __init__(self, docker: aiodocker.Docker, container: DockerContainer, address: str) -> None:
        self.docker = docker
        self.container = container
        self._address = address

    async def target(self, shell: str | None = "/bin/sh") -> DockerTarget:
        state = (await self.container.show())["State"]
        instance = instance_of(self.container.id, state["StartedAt"])
        return DockerTarget(
            engine=self._address, container=self.container.id, instance=instance, user=USER, shell=shell
        )

    async def execs(self) -> int:
        """How many of its execs the engine counts as running."""
        return len((await self.container.show())["ExecIDs"] or [])

    async def processes(self) -> list[str]:
        """Command lines of what runs inside, without its first two processes."""
        said = await self.container.top(ps_args="-eo pid,stat,args")
        lines = [" ".join(row[1:]) for row in said["Processes"]]
        return [line for line in lines if "sleep infinity" not in line]


@contextlib.asynccontextmanager
async def box(image: str, address: str | None = None, **host_config: object) -> AsyncIterator[Box]:
    address = address or engine()
    config: dict[str, Any] = {
        "Image": image,
        "Cmd": ["/bin/sleep", "infinity"],
        "User": USER,
        "Env": ["IMAGE_SAYS=hello"],
        "Labels": {LABEL: "keeper"},
        "HostConfig": {
            "CapDrop": ["ALL"],
            "SecurityOpt": ["no-new-privileges"],
            "ReadonlyRootfs": True,
            "Tmpfs": {"/tmp": "size=64m,mode=1777,exec"},
            "NetworkMode": "none",
            "Init": True,
            "PidsLimit": 256,
            **host_config,
        },
    }
    async with connect(address) as docker:
        container = await docker.containers.create(config, name=f"cloche-test-keeper-{secrets.token_hex(6)}")
        try:
            await container.start()
            yield Box(docker, container, address)
        finally:
            await container.delete(force=True)


@contextlib.asynccontextmanager
async def docker_rig(
    image: str, shell: str | None = "/bin/sh", address: str | None = None, **host_config: object
) -> AsyncIterator[tuple[Rig[DockerTarget], Box]]:
    async with box(image, address, **host_config) as made:
        target = await made.target(shell)
        with tempfile.TemporaryDirectory() as name:
            async with keeper_of(Path(name) / "data", target) as rig:
                yield rig, made
