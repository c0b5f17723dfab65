"""Whether the CLI is at work, as its own frames tell."""

import asyncio

from services.agent.runtimes.claude.frames import Frame, name, part, text
from services.agent.runtimes.claude.recent import Recent

IDLE = "idle"
OVER = frozenset({"completed", "cancelled"})
MOST_TASKS = 100
TASK_OVER = frozenset({"completed", "failed", "killed", "stopped", "cancelled"})


class Turns:
    """Fed with every frame. Nothing here depends on when a frame came, only on which came."""

    def __init__(self) -> None:
        self._said: set[str] = set()
        self._over: Recent[None] = Recent()
        self._state: str | None = None
        self._tells_lives = False
        self._results = 0
        self._answered: Recent[None] = Recent()
        self._tasks: Recent[None] = Recent()
        self._news = asyncio.Event()

    def say(self, message: str) -> None:
        """That message begins a turn, or is heard in one."""
        self._said.add(message)
        self._wake()

    def feed(self, frame: Frame) -> None:
        match frame["type"]:
            case "command_lifecycle":
                self._tells_lives = True
                if text(frame, "state") in OVER:
                    self._over[name(frame, "command_uuid")] = None
            case "result":
                self._results += 1
            case "system":
                self._system(frame)
            case "control_response":
                self._answered[name(part(frame, "response"), "request_id")] = None
            case _:
                return
        self._wake()

    def _system(self, frame: Frame) -> None:
        task = name(frame, "task_id")
        match frame.get("subtype"):
            case "session_state_changed":
                self._state = text(frame, "state")
            case "task_started" if task:
                self._tasks[task] = None
            case "task_notification":
                self._tasks.pop(task, None)
            case "task_updated" if text(part(frame, "patch"), "status") in TASK_OVER:
                self._tasks.pop(task, None)

    def tasks(self) -> tuple[str, ...]:
        """What goes on in the background, such as subagents: the newest."""
        return tuple(self._tasks)[-MOST_TASKS:]

    def is_free(self) -> bool:
        """Everything that was said has been dealt with; something may go on in the background."""
        return self._said <= self._over.keys() if self._tells_lives else self._results >= len(self._said)

    def is_over(self) -> bool:
        return self.is_free() and self._state in (None, IDLE)

    async def begun(self) -> None:
        while not self._said:
            await self._changed()

    async def free(self) -> None:
        while not self.is_free():
            await self._changed()

    async def over(self) -> None:
        """Also what goes on in the background: a subagent, say, whose end begins a turn of its own."""
        while not self.is_over():
            await self._changed()

    async def answered(self, request: str) -> None:
        """The CLI has answered that request of ours."""
        while request not in self._answered:
            await self._changed()

    async def _changed(self) -> None:
        await self._news.wait()

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()
