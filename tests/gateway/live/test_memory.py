"""What followers have not read is in the log, and not in the gateway's memory."""

import contextlib
from pathlib import Path

import msgspec
import psutil

from tests.gateway.live.raw import TEXT, RawSocket, raw_socket
from tests.gateway.rig import gateway_in

MB = 1 << 20
STUCK = 10
PRINTED = 96 * MB
MOST = 64 * MB
"""Less than one copy of what was printed, for all of them together."""
SETTINGS = "[gateway]\nslow_s = 600.0\n"
"""Nobody is let go of."""


class _Told(msgspec.Struct):
    exec: str = ""
    offset: int = 0
    size: int = 0


class _Event(msgspec.Struct):
    type: str = ""
    data: _Told = msgspec.field(default_factory=_Told)


class _Frame(msgspec.Struct):
    type: str
    data: _Event = msgspec.field(default_factory=_Event)


async def test_followers_that_do_not_read_cost_little_memory_and_miss_nothing(tmp_path: Path) -> None:
    (tmp_path / "cloche.toml").write_text(SETTINGS)
    async with gateway_in(tmp_path) as gateway, contextlib.AsyncExitStack() as held:
        sandbox = await gateway.cloche.create()
        path = f"/ws/sandboxes/{sandbox.id}?from=1"
        stuck = [await held.enter_async_context(raw_socket(gateway, path, receive_buffer=4096)) for _ in range(STUCK)]
        for each in stuck:
            assert b" 101 " in await each.head()
        process = psutil.Process(gateway.service.pid)
        before = process.memory_info().rss
        await sandbox.run(f"head -c {PRINTED} /dev/zero | tr '\\0' x")
        # Whoever reads now is told all of it, so all of it has come to the gateway.
        assert await _printed(stuck[0]) == PRINTED
        assert process.memory_info().rss - before < MOST


async def _printed(follower: RawSocket) -> int:
    """Bytes of output, offsets checked, up to the command's end."""
    at = 0
    async for each in follower.frames():
        if each.opcode != TEXT:
            continue
        frame = msgspec.json.decode(each.data, type=_Frame)
        assert frame.type != "error", each.data
        if frame.data.type == "command.completed":
            return at
        if frame.data.type == "command.output":
            assert frame.data.data.offset == at
            at += frame.data.data.size
    raise AssertionError("let go of")
