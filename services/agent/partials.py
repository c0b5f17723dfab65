"""Words as they come: gathered into few events, each character told once."""

import asyncio
from typing import Literal

from contracts.events import agent as facts
from services.agent.pen import Pen

GATHERED_S = 0.1
MOST = 4000
"""Characters in one event."""

MOST_GROWING = 100
"""Messages at a time: of those before them nothing more is expected."""

Kind = Literal["message", "thinking"]


class _Growing:
    def __init__(self) -> None:
        self.offset = 0
        """Characters that went into events, or were told by an earlier life."""
        self.parts: list[str] = []
        self.size = 0


class Partials:
    """`run` has to run meanwhile."""

    def __init__(self, pen: Pen, run: str, told: dict[str, int]) -> None:
        self._pen = pen
        self._run = run
        self._told = told
        self._growing: dict[tuple[Kind, str], _Growing] = {}
        self._news = asyncio.Event()
        self._turn = asyncio.Lock()

    async def add(self, kind: Kind, message: str, text: str) -> None:
        """`message` names the message that this is the next part of."""
        growing = self._growing.setdefault((kind, message), _Growing())
        if len(self._growing) > MOST_GROWING:
            await self.whole(*next(iter(self._growing)))
        growing.parts.append(text)
        growing.size += len(text)
        if growing.size >= MOST:
            await self._flush(kind, message)
        else:
            self._news.set()

    async def whole(self, kind: Kind, message: str) -> None:
        """The message is complete: nothing more of it comes in parts."""
        await self._flush(kind, message)
        self._growing.pop((kind, message), None)

    async def run(self) -> None:
        """For ever."""
        while True:
            await self._news.wait()
            await asyncio.sleep(GATHERED_S)
            self._news.clear()
            for kind, message in list(self._growing):
                await self._flush(kind, message)

    async def _flush(self, kind: Kind, message: str) -> None:
        async with self._turn:
            growing = self._growing.get((kind, message))
            if growing is None or not growing.size:
                return
            text = "".join(growing.parts)
            begin, growing.parts, growing.size = growing.offset, [], 0
            growing.offset += len(text)
            known = self._told.get(f"agent.{kind}/{message}", 0)
            if growing.offset > known:
                fresh = max(begin, known)
                await self._tell(kind, message, fresh, text[fresh - begin :])

    async def _tell(self, kind: Kind, message: str, offset: int, text: str) -> None:
        form = facts.AgentMessage if kind == "message" else facts.AgentThinking
        part = form(run=self._run, text=text, partial=True, message=message, offset=offset)
        await self._pen.write(f"partial/{kind}/{message}/{offset}", part)
