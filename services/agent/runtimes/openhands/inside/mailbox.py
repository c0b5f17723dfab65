"""Orders from outside."""

from __future__ import annotations

import asyncio
import collections
import json
import os
import threading
from collections.abc import Callable
from typing import Any


class Mailbox:
    """Orders as they come. Heard by a thread, so that they are heard whatever the conversation is busy with."""

    def __init__(self, stdin: int, loop: asyncio.AbstractEventLoop) -> None:
        self._stdin = stdin
        self._loop = loop
        self._news = threading.Condition()
        self._noticed = asyncio.Event()
        self._answered: set[int] = set()
        self._turns: set[int] = set()
        self.files: dict[str, str] = {}
        self.start: dict[str, Any] | None = None
        self.messages: collections.deque[str] = collections.deque()
        self.verdicts: dict[tuple[int, int], str | None] = {}
        """By question and call: None = it may run, otherwise why not."""
        self.interrupts: list[str] = []
        self.over = False

    def listen(self) -> None:
        with os.fdopen(self._stdin, "rb") as lines:
            for line in lines:
                with self._news:
                    self._hear(json.loads(line))
                    self._notify()
        with self._news:
            self.over = True
            self._notify()

    def _notify(self) -> None:
        self._news.notify_all()
        self._loop.call_soon_threadsafe(self._noticed.set)

    def _hear(self, order: dict[str, Any]) -> None:
        kind = order["order"]
        if kind == "restore":
            self.files.update(order["files"])
        elif kind == "start":
            self.start = order
        elif kind == "turn":
            self.messages.extend(order["say"])
            self._turns.add(order["turn"])
        elif kind == "go":
            self.messages.extend(order["say"])
            self._answered.add(order["ask"])
        elif kind == "verdict":
            self.verdicts[order["ask"], order["call"]] = order["denied"]
        elif kind == "interrupt":
            self.interrupts.append(order["id"])
        elif kind == "stop":
            self.over = True

    async def until(self, condition: Callable[[], object]) -> None:
        """Also returns when there is nothing more to come."""
        while not condition() and not self.over:
            self._noticed.clear()
            if not condition() and not self.over:
                await self._noticed.wait()

    def take_interrupts(self) -> list[str]:
        with self._news:
            taken, self.interrupts = self.interrupts, []
        return taken

    def has_turn(self, number: int) -> bool:
        return number in self._turns

    def wait_for_answer(self, ask: int) -> None:
        """Blocks the thread; also returns for an interrupt."""
        with self._news:
            self._news.wait_for(lambda: ask in self._answered or self.interrupts or self.over)
