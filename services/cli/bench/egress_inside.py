"""Clients that need nothing but Python, so that they run in a sandbox as they do outside."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import msgspec
from msgspec import Struct

from contracts.errors import Unavailable
from infra.client import Sandbox
from services.cli.bench.egress_load import Way
from services.cli.bench.egress_servers import ORIGIN

AT_ONCE = 16
PROGRAM = """
import json, socket, sys, threading, time
proxy, host, port, count, at_once, path = sys.argv[1:]
place = f"{host}:{port}"
target = path if proxy == "-" else f"http://{place}{path}"
request = f"GET {target} HTTP/1.1\\r\\nHost: {place}\\r\\n\\r\\n".encode()
where = (host, int(port)) if proxy == "-" else ("127.0.0.1", int(proxy))
times, room = [], memoryview(bytearray(1 << 20))

def fetch(connection, room):
    connection.sendall(request)
    head = b""
    while b"\\r\\n\\r\\n" not in head:
        piece = connection.recv(65536)
        if not piece:
            return False
        head += piece
    head, _, rest = head.partition(b"\\r\\n\\r\\n")
    assert b" 200 " in head[:16], head
    missing = int(head.lower().split(b"content-length:")[1].split(b"\\r\\n")[0]) - len(rest)
    while missing > 0:
        missing -= connection.recv_into(room) or sys.exit("it was cut short")
    return True

def ask(share):
    room, connection = memoryview(bytearray(1 << 20)), None
    for _ in range(share):
        began = time.perf_counter()
        while connection is None or not fetch(connection, room):
            if connection is not None:
                connection.close()
            connection = socket.create_connection(where)
        times.append((time.perf_counter() - began) * 1000)

threads = [threading.Thread(target=ask, args=(int(count) // int(at_once),)) for _ in range(int(at_once))]
began = time.perf_counter()
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(json.dumps({"seconds": time.perf_counter() - began, "latencies_ms": times}))
"""


class Said(Struct, frozen=True, kw_only=True):
    seconds: float
    latencies_ms: list[float]

    @property
    def rate(self) -> float:
        return len(self.latencies_ms) / self.seconds


Start = Callable[[Sequence[str]], Awaitable[bytes]]
"""Runs a command and gives its output. Raises `Unavailable` when it fails."""


async def fetch(start: Start, way: Way, path: str, count: int, at_once: int = AT_ONCE) -> Said:
    """Raises `Unavailable` with its words when it fails."""
    argv = ["python3", "-S", "-c", PROGRAM, str(way.proxy or "-"), ORIGIN, str(way.web), str(count), str(at_once), path]
    said = msgspec.json.decode(await start(argv), type=Said)
    if len(said.latencies_ms) != count // at_once * at_once:
        raise Unavailable(f"{len(said.latencies_ms)} of {count} requests were answered")
    return said


async def here(argv: Sequence[str]) -> bytes:
    """Outside of any sandbox."""
    process = await asyncio.create_subprocess_exec(
        *argv, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    said, words = await process.communicate()
    if process.returncode != 0:
        raise Unavailable(words.decode("utf-8", "replace"))
    return said


def inside(sandbox: Sandbox) -> Start:
    async def start(argv: Sequence[str]) -> bytes:
        done = await sandbox.run(argv)
        if done.exit_code != 0:
            raise Unavailable(done.stderr.decode("utf-8", "replace"))
        return done.stdout

    return start
