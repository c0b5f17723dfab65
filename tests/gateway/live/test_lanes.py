"""Orders wait in lanes, and no client holds more of our memory by that than a little."""

import asyncio

import msgspec

from services.gateway.live.ending import Left
from services.gateway.live.frames import CommandFrame
from services.gateway.live.lanes import WAITING_BYTES, Lanes


def _frame(command: str, size: int = 2) -> CommandFrame:
    return CommandFrame(command=command, payload=msgspec.Raw(b"{%b}" % (b" " * (size - 2))))


async def _with_lanes(group: asyncio.TaskGroup) -> None:
    may_go_on = asyncio.Semaphore(0)
    done: asyncio.Queue[str] = asyncio.Queue()

    async def carry_out(frame: CommandFrame, _: float) -> None:
        if frame.command == "request_files":
            await may_go_on.acquire()
        done.put_nowait(frame.command)

    lanes = Lanes(group, carry_out)
    for _ in range(3):
        await lanes.put(_frame("request_files", WAITING_BYTES // 2))
    too_much = group.create_task(lanes.put(_frame("request_files")))
    await lanes.put(_frame("input", WAITING_BYTES))
    assert await done.get() == "input"
    assert not too_much.done()
    may_go_on.release()
    await too_much
    assert await done.get() == "request_files"
    raise Left


async def test_whoever_sends_much_is_not_read_until_there_is_room_and_other_lanes_go_on() -> None:
    try:
        async with asyncio.TaskGroup() as group:
            await _with_lanes(group)
    except* Left:
        pass
