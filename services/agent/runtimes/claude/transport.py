"""The SDK's way to its CLI: a process in a sandbox, whose past is read again by whoever attaches to it."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from claude_agent_sdk import Transport

from contracts.errors import AgentFailed, Invalid
from services.agent.lines import Line
from services.agent.process import Process
from services.agent.runtimes.claude import frames
from services.agent.runtimes.claude.frames import Frame
from services.agent.runtimes.claude.questions import Question

HANDSHAKE = "cloche-initialize"
MOST_OPEN = 200
"""Requests of the CLI that wait for an answer at one time."""
LONGEST_QUESTION = 2 * 1024 * 1024
"""Bytes. Its answer repeats it, and a model writes no tool call of that length."""
BREATH = 50
ASKED = ("hook_callback", "can_use_tool")

Take = Callable[[Line, Frame], Awaitable[None]]
Refuse = Callable[[Line, str], Awaitable[None]]
Withdraw = Callable[[Question], Awaitable[None]]


class ProcessTransport(Transport):
    """Gives the SDK only what is its own: requests and answers. All else goes to `take`, in the order in which it came.

    The SDK gives each request a name of chance; the handshake has the same one in every life, so that it is said once
    and its answer is found in what was read again. What the CLI asked and was answered in an earlier life is left out.
    """

    def __init__(self, process: Process, done: set[str], take: Take, refuse: Refuse, withdraw: Withdraw) -> None:
        """`done`: see `answered`."""
        self._process = process
        self._take = take
        self._refuse = refuse
        self._withdraw = withdraw
        self._done = done
        self._open: dict[str, Question] = {}
        """What the CLI asks, by the names that it gives its requests."""
        self._handshake: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._greeted = asyncio.Event()
        self._for_sdk: asyncio.Queue[Frame] = asyncio.Queue(MOST_OPEN)

    async def connect(self) -> None:
        pass

    def is_ready(self) -> bool:
        return True

    async def write(self, data: str) -> None:
        message = json.loads(data)
        if message["type"] == "control_request" and message["request"]["subtype"] == "initialize":
            await self._greet(message)
            return
        if message["type"] == "control_response":
            self._open.pop(message["response"]["request_id"], None)
        await self.say(message)

    async def _greet(self, message: Frame) -> None:
        """Returns with the answer: how long that may take is not for the SDK to say, since a run may be paused."""
        if not self._handshake.done():
            self._handshake.set_result(message["request_id"])
        await self.say({**message, "request_id": HANDSHAKE})
        await self._greeted.wait()

    async def say(self, message: Frame) -> bytes:
        """The line."""
        line = json.dumps(message).encode()
        await self._process.say(line)
        return line

    async def end_input(self) -> None:
        await self._process.end_input()

    async def close(self) -> None:
        """The process goes on: another life of this service may come for it."""

    def read_messages(self) -> AsyncIterator[dict[str, Any]]:
        return self._read()

    async def _read(self) -> AsyncIterator[dict[str, Any]]:
        while True:
            yield await self._for_sdk.get()

    async def pump(self) -> None:
        """Takes all that the process says, whether or not the SDK listens.

        Returns at its end. Raises `ProcessLost`, `AgentFailed`, and what `take` raises.
        """
        number = 0
        async for line in self._process.lines():
            number += 1
            if number % BREATH == 0:
                # What is there already is taken without a pause, and others want to go on too.
                await asyncio.sleep(0)
            frame = await self._frame(line)
            if frame is not None and (passed := await self._pass(line, frame)) is not None:
                await self._for_sdk.put(passed)
                if frame["type"] == "control_cancel_request" and (asked := self._open.pop(frame["request_id"], None)):
                    await self._withdraw(asked)

    async def _frame(self, line: Line) -> Frame | None:
        try:
            return await frames.read(line.data)
        except Invalid as error:
            await self._refuse(line, error.message)
            return None

    async def _pass(self, line: Line, frame: Frame) -> Frame | None:
        await self._take(line, frame)
        match frame["type"]:
            case "control_request":
                return await self._request(line, frame)
            case "control_response":
                return await self._response(frame)
            case "control_cancel_request" if frames.name(frame, "request_id") in self._open:
                return frame
        return None

    async def _request(self, line: Line, frame: Frame) -> Frame | None:
        name, asked = frames.name(frame, "request_id"), frames.part(frame, "request")
        if not name or frames.text(asked, "subtype") not in ASKED:
            await self._refuse(line, "a request that is none")
            return None
        if name in self._done or name in self._open:
            return None
        self._open[name] = question = Question(line.offset, frames.name(asked, "tool_use_id"))
        if len(self._open) > MOST_OPEN:
            raise AgentFailed(f"the agent asks more than {MOST_OPEN} questions at a time", reason="flood")
        if len(line.data) > LONGEST_QUESTION:
            raise AgentFailed(f"the agent asks a question of more than {LONGEST_QUESTION} bytes", reason="flood")
        return {**frame, "request": {**asked, "tool_use_id": question.name}}

    async def _response(self, frame: Frame) -> Frame | None:
        response = frames.part(frame, "response")
        if response.get("request_id") != HANDSHAKE:
            return None
        answer = {**frame, "response": {**response, "request_id": await self._handshake}}
        self._greeted.set()
        return answer


def answered(inputs: tuple[bytes, ...]) -> set[str]:
    """What the CLI asked and was answered before we came. Takes a while where that is much."""
    done = set()
    for line in inputs:
        try:
            said = frames.parse(line)
        except Invalid:
            continue
        if said is not None and said["type"] == "control_response":
            done.add(frames.text(frames.part(said, "response"), "request_id"))
    return done
