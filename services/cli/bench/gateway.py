"""The gateway: one sandbox's output to many WebSockets, and a command over HTTP."""

import asyncio
import time
from pathlib import Path
from typing import NamedTuple

import psutil

from contracts.errors import Unavailable
from infra.client import Sandbox
from services.cli.bench.figure import Aim, Figure
from services.cli.bench.gateway_bare import Broadcaster, broadcaster
from services.cli.bench.gateway_followers import Followed, Wanted, followers
from services.cli.bench.gateway_process import HERE, GatewayProcess, gateway_process
from services.cli.bench.memory import watched
from services.cli.bench.percentile import median, percentile
from services.cli.bench.rig import Rig
from services.cli.bench.sizes import Sizes

MB = 1024 * 1024
LINE = "the quick brown fox jumps over the lazy dog and runs on till evening"
AIM_FAN_OUT = 0.5
AIM_COMMAND = 1.5
WARM_UP = 5
TURN = 25
BROADCAST = "`websockets` broadcast of the same frames"
BUS = "the same through the bus"


class FannedOut(NamedTuple):
    """One round."""

    mb_per_s: float
    cpu_s: float
    followed: Followed


async def gateway(rig: Rig, sizes: Sizes) -> list[Figure]:
    async with gateway_process(rig.settings) as process:
        return [*await fan_out(rig, process, sizes), *await commands(rig, process, sizes)]


async def fan_out(rig: Rig, process: GatewayProcess, sizes: Sizes) -> list[Figure]:
    sandbox = await rig.cloche.create()
    await sandbox.run(["true"])
    frames = rig.settings.data / "bench-frames"
    ours: list[FannedOut] = []
    bare: list[FannedOut] = []
    async with broadcaster() as other, watched(process.pid) as growth:
        for _ in rig.progress.track(range(sizes.rounds), description="fan-out"):
            ours.append(await _ours(process, sandbox, sizes, frames))
            bare.append(await _bare(other, sizes, frames))
    await sandbox.remove()
    return _figures(ours, bare, sizes, growth.bytes / MB)


async def _ours(process: GatewayProcess, sandbox: Sandbox, sizes: Sizes, frames: Path) -> FannedOut:
    path = f"/ws/sandboxes/{sandbox.id}?types=command"
    wanted = Wanted(port=process.port, path=path, token=process.token, followers=sizes.followers, keep=str(frames))
    async with followers(wanted) as crowd:
        cpu, began = _cpu_s(process.pid), time.perf_counter()
        await sandbox.start(f"yes '{LINE}' | head -c {sizes.followed_bytes}")
        return _fanned_out(await crowd.followed(), began, _cpu_s(process.pid) - cpu)


async def _bare(other: Broadcaster, sizes: Sizes, frames: Path) -> FannedOut:
    async with followers(Wanted(port=other.port, path="/", followers=sizes.followers)) as crowd:
        cpu = _cpu_s(other.pid)
        began = await other.broadcast(frames)
        return _fanned_out(await crowd.followed(), began, _cpu_s(other.pid) - cpu)


def _fanned_out(followed: Followed, began: float, cpu_s: float) -> FannedOut:
    return FannedOut(followed.bytes / MB / (followed.ended - began), cpu_s, followed)


def _cpu_s(pid: int) -> float:
    used = psutil.Process(pid).cpu_times()
    return float(used.user + used.system)


def _figures(ours: list[FannedOut], bare: list[FannedOut], sizes: Sizes, growth_mb: float) -> list[Figure]:
    what = f"{sizes.followed_bytes / MB:.0f} MB printed to {sizes.followers} WebSockets"
    return [
        Figure(
            what=f"{what}, in all",
            value=median([each.mb_per_s for each in ours]),
            unit="MB/s",
            bare=median([each.mb_per_s for each in bare]),
            beside=BROADCAST,
            ratios=tuple(mine.mb_per_s / theirs.mb_per_s for mine, theirs in zip(ours, bare, strict=True)),
            aim=Aim(ratio_from=AIM_FAN_OUT),
        ),
        Figure(what=f"{what}, log → client, p50", value=median([each.followed.p50_ms for each in ours]), unit="ms"),
        Figure(what=f"{what}, log → client, p99", value=median([each.followed.p99_ms for each in ours]), unit="ms"),
        Figure(
            what=f"{what}, CPU of the gateway",
            value=median([each.cpu_s for each in ours]),
            unit="s",
            bare=median([each.cpu_s for each in bare]),
            beside=BROADCAST,
        ),
        Figure(what=f"{what}, growth of the gateway", value=growth_mb, unit="MB"),
    ]


async def commands(rig: Rig, process: GatewayProcess, sizes: Sizes) -> list[Figure]:
    """Over one connection that is kept, by a client that costs next to nothing."""
    sandbox = await rig.cloche.create()
    ours: list[float] = []
    bare: list[float] = []
    reader, writer = await asyncio.open_connection(HERE, process.port)
    request = _request(process, sandbox.id)
    for _ in range(WARM_UP):
        await _posted(reader, writer, request)
        await _run(sandbox)
    turns = [min(TURN, sizes.round_trips - done) for done in range(0, sizes.round_trips, TURN)]
    for turn in rig.progress.track(turns, description="POST …/commands"):
        ours += [await _posted(reader, writer, request) for _ in range(turn)]
        bare += [await _run(sandbox) for _ in range(turn)]
    writer.close()
    await sandbox.remove()
    return [
        Figure(
            what=f"`true` by POST …/commands?wait=, p{percent}",
            value=percentile(ours, percent),
            unit="ms",
            bare=percentile(bare, percent),
            beside=BUS,
            aim=Aim(ratio_below=AIM_COMMAND) if percent == 50 else None,
        )
        for percent in (50, 99)
    ]


def _request(process: GatewayProcess, sandbox: str) -> bytes:
    body = b'{"argv":["true"]}'
    lines = [
        f"POST /api/v1/sandboxes/{sandbox}/commands?wait=60 HTTP/1.1",
        f"Host: {HERE}:{process.port}",
        f"Authorization: Bearer {process.token}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


async def _posted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> float:
    """Milliseconds. Raises `Unavailable` for an answer that is no result."""
    began = time.perf_counter()
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    body = await reader.readexactly(length)
    took = (time.perf_counter() - began) * 1000
    if b" 200 " not in head[:16]:
        raise Unavailable(f"no result: {head[:100]!r} {body[:300]!r}")
    return took


async def _run(sandbox: Sandbox) -> float:
    began = time.perf_counter()
    await sandbox.run(["true"])
    return (time.perf_counter() - began) * 1000
