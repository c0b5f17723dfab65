"""Proxies that people know, where they are installed."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from contracts.errors import Unavailable
from infra.ports import free_port
from services.cli.bench.egress_servers import HERE

READY_S = 15.0
LOOK_S = 0.05
TINYPROXY = """
Port {port}
Listen 127.0.0.1
Timeout 600
MaxClients 300
LogLevel Critical
LogFile "{place}/tinyproxy.log"
PidFile "{place}/tinyproxy.pid"
"""
SQUID = """
http_port 127.0.0.1:{port}
http_access allow all
cache deny all
access_log none
cache_store_log none
cache_log {place}/squid.log
pid_filename none
coredump_dir {place}
shutdown_lifetime 0 seconds
max_filedescriptors 4096
"""
PROXIES = {"tinyproxy": (TINYPROXY, ("-d", "-c")), "squid": (SQUID, ("-N", "-f"))}


def installed() -> tuple[str, ...]:
    return tuple(name for name in PROXIES if _program(name) is not None)


@asynccontextmanager
async def running(place: Path) -> AsyncIterator[dict[str, int]]:
    """The port of each one that is installed."""
    async with AsyncExitStack() as stack:
        yield {name: await stack.enter_async_context(_running(name, place / name)) for name in installed()}


@asynccontextmanager
async def _running(name: str, place: Path) -> AsyncIterator[int]:
    port = free_port()
    text, flags = PROXIES[name]
    settings = await asyncio.to_thread(_prepare, name, place, text.format(port=port, place=place))
    program = _program(name)
    assert program is not None
    process = await asyncio.create_subprocess_exec(
        program, *flags, settings, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        await _until_it_answers(name, port, process)
        yield port
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def _prepare(name: str, place: Path, text: str) -> Path:
    place.mkdir(parents=True)
    if os.geteuid() == 0:
        # Squid becomes another user where root starts it.
        for directory in (place, place.parent):
            directory.chmod(0o755)
        place.chmod(0o777)
    settings = place / f"{name}.conf"
    settings.write_text(text)
    return settings


def _program(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


async def _until_it_answers(name: str, port: int, process: asyncio.subprocess.Process) -> None:
    try:
        async with asyncio.timeout(READY_S):
            while process.returncode is None:
                try:
                    _, writer = await asyncio.open_connection(HERE, port)
                except OSError:
                    await asyncio.sleep(LOOK_S)
                else:
                    writer.close()
                    return
    except TimeoutError:
        pass
    raise Unavailable(f"{name} does not answer")
