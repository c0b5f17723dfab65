"""Runs for tests to compare: events, as the log would have them."""

import datetime
from collections.abc import Iterable
from typing import Any

from contracts import codec
from contracts.events import agent, command
from contracts.message import EventHead, Fact
from contracts.payload import pack
from contracts.registry import tag_of
from contracts.steps import Step, Steps

BEGIN = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)

NAMES = ("sandbox-a", "sandbox-bbb")
"""Which count for nothing in what a sandbox says."""


class Run:
    """One sandbox's events; every run has ids, times and sequences of its own."""

    def __init__(self, sandbox: str, *, first: int = 1, pace_s: float = 1) -> None:
        self.sandbox = sandbox
        self.events: list[tuple[int, EventHead, Fact]] = []
        self._sequence = first
        self._pace = datetime.timedelta(seconds=pace_s)
        self._count = 0

    def tell(self, fact: Fact) -> int:
        tag = tag_of(fact)
        raw: dict[str, Any] = {
            "id": f"x.{self.sandbox}.{self._sequence}",
            "source": "x/y",
            "type": tag,
            "time": BEGIN + self._pace * self._sequence,
            "sandboxid": self.sandbox,
            "data": fact,
        }
        self.events.append((self._sequence, codec.decode_head(codec.encode(raw)), fact))
        self._sequence += 1
        return self._sequence - 1

    def name(self, kind: str) -> str:
        self._count += 1
        return f"{kind}-{self.sandbox}-{self._count}"

    def command(self, line: str, output: bytes = b"", *, code: int = 0, pieces: int = 1) -> int:
        """Returns its sequence."""
        exec_id = self.name("e")
        begun = self.tell(command.CommandStarted(exec=exec_id, argv=("sh", "-c", line), cwd="/workspace"))
        size = max(len(output) // pieces, 1)
        for at in range(0, len(output), size):
            data, encoding = pack(output[at : at + size])
            self.tell(
                command.CommandOutput(
                    exec=exec_id,
                    stream=command.Stream.STDOUT,
                    offset=at,
                    size=len(output[at : at + size]),
                    data=data,
                    encoding=encoding,
                )
            )
        totals = command.Totals(stdout=len(output))
        self.tell(command.CommandCompleted(exec=exec_id, exit=command.Exit(code=code), duration_ms=1.5, totals=totals))
        return begun

    def call(self, tool: str, arguments: dict[str, Any], output: str, *, ok: bool = True) -> int:
        call = self.name("t")
        begun = self.tell(agent.AgentToolUse(run="run", call=call, tool=tool, input=arguments))
        self.tell(agent.AgentToolResult(run="run", call=call, ok=ok, output=output))
        return begun

    def says(self, text: str) -> int:
        return self.tell(agent.AgentMessage(run="run", text=text))

    def counted(self) -> Steps:
        steps = Steps(NAMES)
        for event in self.events:
            steps.feed(*event)
        return steps

    def steps(self) -> list[Step]:
        return self.counted().steps


def played(sandbox: str, script: Iterable[tuple[str, str]], **more: Any) -> Run:
    run = Run(sandbox, **more)
    for kind, text in script:
        if kind == "command":
            run.command(text, f"{text} of {sandbox}\n".encode() * 3)
        elif kind == "tool":
            run.call("read", {"path": text, "in": sandbox}, text)
        else:
            run.says(text)
    return run
