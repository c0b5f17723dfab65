"""One OpenHands conversation."""

from __future__ import annotations

import asyncio
import functools
import itertools
import os
import signal
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

from services.agent.runtimes.openhands.inside.mailbox import Mailbox
from services.agent.runtimes.openhands.inside.out import Out
from services.agent.runtimes.openhands.inside.processes import Processes
from services.agent.runtimes.openhands.inside.sdk import OWN_TOOLS, base_url, load_sdk
from services.agent.runtimes.openhands.inside.teller import LONGEST_TEXT, Teller, arguments
from services.agent.runtimes.openhands.inside.transcript import Transcript

SHELL_GRACE_S = 0.3
INTERRUPT_AGAIN_S = 0.1
TOOL_OPTIONS: dict[str, Any] = {"terminal": {"terminal_type": "subprocess"}}
"""A terminal of tmux would be shared by what runs in it, and could not be ended alone."""

PLAIN_SHELL = "set enable-bracketed-paste off\n"
"""Otherwise its marks stand in every result that the model is shown."""


class Worker:
    def __init__(self, out: Out, mailbox: Mailbox) -> None:
        self._out = out
        self._mailbox = mailbox
        self._asks = 0
        self._open_calls: set[str] = set()
        self._in_turn = False

    async def serve(self) -> None:
        """Until told to stop, or there is nobody any more who could tell."""
        await self._mailbox.until(lambda: self._mailbox.start)
        if self._mailbox.start is None:
            return
        self._begin(self._mailbox.start)
        turns = asyncio.create_task(self._turns())
        stopped = asyncio.create_task(self._mailbox.until(lambda: False))
        await asyncio.wait((turns, stopped), return_when=asyncio.FIRST_COMPLETED)
        self._processes.kill_all()
        if turns.done():
            turns.result()

    def _begin(self, order: dict[str, Any]) -> None:
        directory = tempfile.mkdtemp(prefix="openhands-")
        Path(directory, "inputrc").write_text(PLAIN_SHELL)
        os.environ.update(OH_PERSISTENCE_DIR=directory, INPUTRC=f"{directory}/inputrc")
        self._sdk = load_sdk()
        session = uuid.UUID(order["session"])
        self._processes = Processes()
        self._teller = Teller(self._out, self._sdk)
        self._transcript = Transcript(self._out, self._sdk, f"{directory}/{session.hex}", self._mailbox.files)
        llm = self._sdk.sdk.LLM(usage_id="agent", api_key="cloche", **{"base_url": base_url(order), **order["llm"]})
        self._talk = self._sdk.local.LocalConversation(
            agent=self._agent(llm),
            workspace=order["workspace"],
            persistence_dir=directory,
            profile_store_dir=f"{directory}/profiles",
            conversation_id=session,
            file_store=self._transcript.store,
            callbacks=[self._on_event],
            token_callbacks=[self._teller.take_token] if llm.stream else None,
            visualizer=None,
            max_iteration_per_run=order["max_steps"],
        )
        if order["confirm"]:
            self._talk.set_confirmation_policy(self._sdk.policy.AlwaysConfirm())
        self._teller.forget_spent(self._metrics)
        if self._transcript.resumed:
            self._talk.reject_pending_actions("It was cut off before it ended, and may have been done in part.")
            self._talk.state.rebuild_view()
        self._out.tell("ready", sdk=self._sdk.sdk.__version__, resumed=self._transcript.resumed)

    def _agent(self, llm: Any) -> Any:
        tools = [self._sdk.terminal.TerminalTool, self._sdk.editor.FileEditorTool, self._sdk.tasks.TaskTrackerTool]
        return self._sdk.sdk.Agent(
            llm=llm,
            tools=[self._sdk.sdk.Tool(name=tool.name, params=TOOL_OPTIONS.get(tool.name, {})) for tool in tools],
            system_prompt_kwargs={"cli_mode": True},
            condenser=self._sdk.condenser.default_condenser(llm.model_copy(update={"usage_id": "condenser"})),
        )

    @property
    def _metrics(self) -> Any:
        return self._talk.conversation_stats.get_combined_metrics()

    async def _turns(self) -> None:
        for number in itertools.count(1):
            while not self._mailbox.has_turn(number):
                self._acknowledge(0)
                await self._mailbox.until(functools.partial(self._is_called, number))
                if self._mailbox.over:
                    return
            began = time.monotonic()
            await asyncio.to_thread(self._deliver)
            self._in_turn = True
            status = await self._turn()
            self._in_turn = False
            self._transcript.tell_base()
            self._teller.abandon()
            self._teller.tell_usage(self._metrics, turn_ms=(time.monotonic() - began) * 1000)
            trouble, self._teller.trouble = self._teller.trouble, {}
            self._out.tell("turn", turn=number, status=status, result=self._teller.last_words, **trouble)

    def _is_called(self, turn: int) -> bool:
        return bool(self._mailbox.interrupts) or self._mailbox.has_turn(turn)

    async def _turn(self) -> str:
        """From a message to the end of what it sets going. Returns how it ended."""
        while True:
            await self._run()
            if self._mailbox.interrupts:
                await self._stop_tools()
                return "interrupted"
            status = str(self._talk.state.execution_status.value)
            if status != "waiting_for_confirmation":
                return status
            if not await self._ask():
                return "interrupted"

    async def _run(self) -> None:
        self._processes.mark()
        running = asyncio.create_task(self._talk.arun())
        while not running.done() and not self._mailbox.over:
            interrupted = asyncio.create_task(self._mailbox.until(lambda: self._mailbox.interrupts))
            await asyncio.wait((running, interrupted), return_when=asyncio.FIRST_COMPLETED)
            interrupted.cancel()
            if self._mailbox.interrupts and not running.done():
                self._talk.interrupt()
                # Said too early it is not heard, so it is said again.
                await asyncio.wait((running,), timeout=INTERRUPT_AGAIN_S)
        if not running.done():
            return
        try:
            running.result()
        except self._sdk.exceptions.ConversationRunError as failed:
            self._teller.trouble = self._teller.trouble or {"code": "failed", "detail": str(failed)[:LONGEST_TEXT]}

    async def _ask(self) -> bool:
        """Waits until each call has leave or none; False where an interrupt came instead."""
        actions = self._sdk.state.ConversationState.get_unmatched_actions(self._talk.state.active_branch())
        asked = [action for action in actions if action.tool_name not in OWN_TOOLS]
        self._transcript.tell_base()
        self._asks += 1
        calls = [{"call": each.tool_call_id, "tool": each.tool_name, "input": arguments(each)} for each in asked]
        self._out.tell("approval_needed", ask=self._asks, calls=calls)
        mailbox, keys = self._mailbox, [(self._asks, at) for at in range(len(asked))]
        await mailbox.until(lambda: mailbox.interrupts or all(key in mailbox.verdicts for key in keys))
        if mailbox.over:
            return False
        if mailbox.interrupts:
            await asyncio.to_thread(self._talk.reject_pending_actions, "Interrupted by the user")
            self._acknowledge(0)
            return False
        for key, action in zip(keys, asked, strict=True):
            reason = mailbox.verdicts.pop(key)
            self._teller.begin(action.tool_call_id)
            if reason is not None:
                await asyncio.to_thread(self._talk.state.block_action, action.id, reason)
        return True

    async def _stop_tools(self) -> None:
        """Everything that the interrupted call has started ends; a shell that goes on by itself does too."""
        killed = await asyncio.to_thread(self._processes.kill, self._shells())
        killed += await asyncio.to_thread(self._end_busy_shell)
        self._acknowledge(killed)

    def _end_busy_shell(self) -> int:
        until = time.monotonic() + SHELL_GRACE_S
        while self._shell_is_busy():
            if time.monotonic() > until:
                return self._end_shell()
            time.sleep(0.01)
        return 0

    def _end_shell(self) -> int:
        for pid in (shells := self._shells()):
            os.kill(pid, signal.SIGKILL)
        session = self._terminal()
        session.close()  # so that the next call gets a new one
        session.terminal.read_screen = _no_screen  # the call that looks for its prompt would look on for half a minute
        return len(shells)

    def _terminal(self) -> Any:
        tool = self._talk.agent.tools_map.get("terminal")
        return getattr(getattr(tool, "executor", None), "_session", None)

    def _shells(self) -> set[int]:
        process = getattr(getattr(self._terminal(), "terminal", None), "process", None)
        return set() if process is None else {process.pid}

    def _shell_is_busy(self) -> bool:
        session = self._terminal()
        return session is not None and bool(session.terminal.is_running())

    def _acknowledge(self, killed: int) -> None:
        for order in self._mailbox.take_interrupts():
            self._out.tell("interrupted", id=order, killed=killed)

    def _on_event(self, event: Any) -> None:
        """Called by the SDK for each event, once it is kept, in the thread that goes through the turn."""
        self._teller.take(event)
        kinds = self._sdk.event
        if isinstance(event, kinds.ActionEvent):
            self._teller.tell_usage(self._metrics)
            self._open_calls.add(event.tool_call_id)
        elif isinstance(event, kinds.ObservationBaseEvent):
            self._open_calls.discard(event.tool_call_id)
            if not self._open_calls:
                self._between()

    def _between(self) -> None:
        """All calls have their results, and the model was not asked again: the one place for what people say."""
        if not self._in_turn or self._mailbox.interrupts or self._mailbox.over:
            return
        self._processes.reap()
        self._asks += 1
        self._out.tell("between", ask=self._asks)
        self._mailbox.wait_for_answer(self._asks)
        if not self._mailbox.interrupts:
            self._deliver()

    def _deliver(self) -> None:
        while self._mailbox.messages:
            self._talk.send_message(self._mailbox.messages.popleft())


def _no_screen() -> str:
    raise ValueError("the shell was ended with the call that it ran")
