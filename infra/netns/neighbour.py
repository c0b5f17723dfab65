"""The way for an ordinary user who may speak to the engine: a container of ours in the sandbox's network namespace.

It opens the sockets, hands them over and ends. It has no capability, a read-only root, our own uid, and sees nothing
but the host's Python. So the sandbox has a loopback interface and no other, as everywhere else: on a network of the
engine it would reach the host by the bridge's address, and with it whatever listens on all addresses of the host.
"""

import asyncio
import contextlib
import os
import secrets
import shutil
import socket
import struct
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from contracts.errors import ClocheError, Unavailable
from infra.docker.containers import Containers
from infra.docker.engine import Engine
from infra.docker.errors import Refused
from infra.docker.plan import BindMount, ContainerPlan
from infra.netns import enter
from infra.netns.answer import Answer, judge, readable, received
from infra.netns.empty_image import have_empty_image
from infra.netns.errors import LifeIsOver
from infra.netns.opened import Opened
from infra.sandbox.docker.layout import DataFiles
from infra.sandbox.docker.planning import labels
from infra.target import DockerTarget
from infra.unix_socket import short_address

HAND_OVER_S = 30.0
TAKE_S = 2.0
MEMORY_BYTES = 128 << 20
PROCESSES = 16
PLACE = "/cloche"
SOCKET = "socket"
PROGRAM = "/enter.py"
_ROOT_LINKS = ("lib", "lib32", "lib64", "libx32")


async def listen_as_neighbour(target: DockerTarget, ports: tuple[int, ...], data: Path) -> Opened:
    """Takes a few hundred milliseconds.

    Raises `PortTaken`, `LifeIsOver` when that container does not run, `Unavailable` with the engine's words.
    """
    async with Engine(target.engine) as engine:
        with _meeting_place(data) as place, _listening(place / SOCKET) as meeting:
            try:
                image = await have_empty_image(engine)
                containers = Containers(engine)
                async with _container(containers, _plan(image, target, ports, place, data)) as helper:
                    return judge(await _handed_over(containers, helper, meeting), ports)
            except Refused as error:
                if "non running" in error.message or "No such container" in error.message:
                    raise LifeIsOver(error.message) from error
                raise Unavailable(f"no helper container: {error.message}") from error


async def _handed_over(containers: Containers, helper: str, meeting: socket.socket) -> Answer:
    taking = asyncio.create_task(_taken(meeting))
    ending = asyncio.create_task(containers.ended(helper, HAND_OVER_S))
    try:
        await asyncio.wait({taking, ending}, return_when=asyncio.FIRST_COMPLETED)
        # It may have ended because it has handed everything over.
        await asyncio.wait({taking}, timeout=TAKE_S)
        if not taking.done():
            raise Unavailable("the helper container ended, or stands still, and has handed nothing over")
        return await taking
    finally:
        for task in (taking, ending):
            task.cancel()
        await asyncio.gather(taking, ending, return_exceptions=True)


async def _taken(meeting: socket.socket) -> Answer:
    while True:
        await readable(meeting)
        connection, _ = meeting.accept()
        with connection:
            connection.setblocking(False)
            if _peer(connection) == os.geteuid() and (answer := await received(connection, TAKE_S)):
                return answer


def _peer(connection: socket.socket) -> int:
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", credentials)[1])


@contextlib.asynccontextmanager
async def _container(containers: Containers, plan: ContainerPlan) -> AsyncIterator[str]:
    """Its id. What a crash leaves of it is swept, like any container of this data directory that is on no record."""
    made = await containers.create(plan, f"cloche-entrance-{secrets.token_hex(6)}")
    try:
        await containers.start(made)
        yield made
    finally:
        await asyncio.shield(_remove(containers, made))


async def _remove(containers: Containers, container: str) -> None:
    with contextlib.suppress(ClocheError):
        await containers.remove(container)


def _plan(image: str, target: DockerTarget, ports: tuple[int, ...], place: Path, data: Path) -> ContainerPlan:
    prefix = Path(sys.base_prefix).resolve()
    python = f"{prefix}/bin/python{sys.version_info.major}.{sys.version_info.minor}"
    return ContainerPlan(
        image=image,
        command=(python, "-I", "-S", "-B", PROGRAM, f"{PLACE}/{SOCKET}", *map(str, ports)),
        user=f"{os.geteuid()}:{os.getegid()}",
        working_dir="/",
        hostname="",
        labels=labels(DataFiles(data.resolve()).home, secrets.token_hex(6)),
        network=f"container:{target.container}",
        memory_bytes=MEMORY_BYTES,
        cpus=1.0,
        pids=PROCESSES,
        mounts=tuple(_mounts(prefix, place)),
        tmpfs={},
        ulimits={"core": 0},
    )


def _mounts(prefix: Path, place: Path) -> Iterator[BindMount]:
    yield BindMount(source="/usr", target="/usr")
    for name in _ROOT_LINKS:
        if Path("/", name).is_dir():
            yield BindMount(source=str(Path("/", name).resolve()), target=f"/{name}")
    if not prefix.is_relative_to("/usr"):
        yield BindMount(source=str(prefix), target=str(prefix))
    yield BindMount(source=str(Path(enter.__file__).resolve()), target=PROGRAM)
    yield BindMount(source=str(place), target=PLACE)


@contextlib.contextmanager
def _meeting_place(data: Path) -> Iterator[Path]:
    place = data.resolve() / "run" / f"entrance-{secrets.token_hex(6)}"
    place.mkdir(mode=0o700, parents=True)
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


@contextlib.contextmanager
def _listening(path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as meeting:
        with short_address(path) as address:
            meeting.bind(address)
        path.chmod(0o600)
        meeting.listen()
        meeting.setblocking(False)
        yield meeting
