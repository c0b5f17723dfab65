"""A small agent that speaks the Agent Client Protocol, played from its prompt. Standard library only.

    python3 small_agent.py ['{"load": false, "at": {"initialize": [STEP…], "session/new": [STEP…]}}']

A prompt that is a JSON list of steps (each an object with one verb) is played; any other is answered with
`heard: <prompt>`. With `{"script": NAME, "turns": [[STEP…], …]}` each prompt plays the next of the turns instead,
whatever it says. Every prompt and answer is kept in `.small-agent/<session>.json` in the working directory, so that a
later process can load the session.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

KEPT = Path(".small-agent")
OPTIONS = [
    {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
    {"optionId": "always", "name": "Always allow", "kind": "allow_always"},
    {"optionId": "no", "name": "Reject", "kind": "reject_once"},
]
POLL_S = 0.01


class Wire:
    """Requests, answers and notifications, one JSON object on a line."""

    def __init__(self) -> None:
        self._writing = threading.Lock()
        self._answers: dict[str, dict[str, Any]] = {}
        self._answered = threading.Condition()
        self._asked = 0

    def raw(self, data: bytes) -> None:
        with self._writing:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()

    def send(self, **message: Any) -> None:
        self.raw(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def ask(self, method: str, params: dict[str, Any], given_up: Callable[[], bool]) -> dict[str, Any] | None:
        self._asked += 1
        own = f"ask-{self._asked}"
        self.send(id=own, method=method, params=params)
        with self._answered:
            while own not in self._answers:
                if given_up():
                    return None
                self._answered.wait(POLL_S)
            return self._answers.pop(own)

    def answered(self, message: dict[str, Any]) -> None:
        with self._answered:
            self._answers[message["id"]] = message.get("result") or message.get("error") or {}
            self._answered.notify_all()


class Session:
    def __init__(self, wire: Wire, own: str, manners: dict[str, Any]) -> None:
        self._wire = wire
        self._manners = manners
        self.id = own
        self.cancelled = threading.Event()
        self._spent: dict[str, Any] = {}
        self._stop = "end_turn"
        self._path = KEPT / f"{own}.json"
        self.told: list[list[str]] = json.loads(self._path.read_text()) if self._path.exists() else []

    def update(self, what: str, /, **fields: Any) -> None:
        self._wire.send(
            method="session/update", params={"sessionId": self.id, "update": {"sessionUpdate": what, **fields}}
        )

    def keep(self, who: str, text: str) -> None:
        self.told.append([who, text])
        KEPT.mkdir(exist_ok=True)
        self._path.write_text(json.dumps(self.told))

    def replay(self) -> None:
        for who, text in self.told:
            self.update(f"{who}_message_chunk", content={"type": "text", "text": text})

    def prompt(self, text: str) -> dict[str, Any]:
        self.cancelled.clear()
        self._stop, self._spent = "end_turn", {}
        self.keep("user", text)
        for step in self.steps(text):
            if self.cancelled.is_set():
                break
            self.play(step)
        usage: dict[str, Any] = {"usage": self._spent} if self._spent else {}
        return {"stopReason": "cancelled" if self.cancelled.is_set() else self._stop, **usage}

    def steps(self, text: str) -> list[dict[str, Any]]:
        if "turns" in self._manners:
            count = KEPT / f"{self._manners['script']}.count"
            number = int(count.read_text()) if count.exists() else 0
            count.write_text(str(number + 1))
            turns: list[list[dict[str, Any]]] = self._manners["turns"]
            return turns[number]
        try:
            steps = json.loads(text)
        except ValueError:
            steps = None
        return steps if isinstance(steps, list) else [{"say": f"heard: {text}"}]

    def play(self, step: dict[str, Any]) -> None:
        ((verb, value),) = step.items()
        getattr(self, f"do_{verb}")(value)

    def do_say(self, text: str) -> None:
        """In two chunks, as agents stream."""
        self.keep("agent", text)
        half = len(text) // 2
        for piece in (text[:half], text[half:]):
            self.update("agent_message_chunk", content={"type": "text", "text": piece})

    def do_think(self, text: str) -> None:
        self.update("agent_thought_chunk", content={"type": "text", "text": text})

    def do_recall(self, _: bool) -> None:
        self.do_say("told: " + " | ".join(text for who, text in self.told if who == "user"))

    def do_chosen(self, _: bool) -> None:
        self.do_say(json.dumps(self._manners.get("chosen", {})))

    def do_plan(self, entries: list[str]) -> None:
        self.update("plan", entries=[{"content": one, "priority": "medium", "status": "pending"} for one in entries])

    def do_begin(self, call: dict[str, Any]) -> None:
        named = {"toolCallId": call["id"], "title": call.get("title", "a tool"), "kind": call.get("kind", "other")}
        about = {"rawInput": call["input"]} if "input" in call else {}
        self.update("tool_call", status="pending", **about, **named)

    def do_end(self, call: dict[str, Any]) -> None:
        shown = [{"type": "content", "content": {"type": "text", "text": call.get("output", "")}}]
        status = "completed" if call.get("ok", True) else "failed"
        self.update("tool_call_update", toolCallId=call["id"], status="in_progress")
        self.update("tool_call_update", toolCallId=call["id"], status=status, content=shown)

    def do_tool(self, call: dict[str, Any]) -> None:
        self.do_begin(call)
        self.do_end(call)

    def do_ask(self, call: dict[str, Any]) -> None:
        """A tool call that needs permission; what it does is append `line` to `file`."""
        self.do_begin(call)
        about = {"toolCallId": call["id"], "title": call.get("title", "a tool"), "rawInput": call.get("input", {})}
        params = {"sessionId": self.id, "toolCall": about, "options": call.get("options", OPTIONS)}
        result = self._wire.ask("session/request_permission", params, self.cancelled.is_set)
        chosen = ((result or {}).get("outcome") or {}).get("optionId")
        if chosen in ("yes", "always"):
            self.do_append([call.get("file", "done"), call["id"]])
        self.do_end({"id": call["id"], "ok": chosen in ("yes", "always"), "output": f"chosen: {chosen}"})

    def do_call(self, call: dict[str, Any]) -> None:
        """A line of shell, after leave was given."""
        about = {"toolCallId": call["id"], "title": "shell", "kind": "execute", "rawInput": {"command": call["shell"]}}
        self.update("tool_call", status="pending", **about)
        params = {"sessionId": self.id, "toolCall": about, "options": OPTIONS}
        result = self._wire.ask("session/request_permission", params, self.cancelled.is_set)
        if ((result or {}).get("outcome") or {}).get("optionId") != "yes":
            self.do_end({"id": call["id"], "ok": False, "output": "no leave"})
            return
        with tempfile.TemporaryFile() as output:
            code = self._shell(call["shell"], output)
            output.seek(0)
            self.do_end({"id": call["id"], "ok": code == 0, "output": output.read(65536).decode(errors="replace")})

    def _shell(self, shell: str, output: Any, *, kill: bool = True) -> int:
        """Cancelled = killed, unless it is told not to care."""
        child = subprocess.Popen(
            ["/bin/sh", "-c", shell], stdin=subprocess.DEVNULL, stdout=output, stderr=output, process_group=0
        )
        while child.poll() is None and not (self.cancelled.is_set() and kill):
            time.sleep(POLL_S)
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
        return child.wait()

    def do_append(self, value: list[str]) -> None:
        with Path(value[0]).open("a") as file:
            file.write(value[1] + "\n")

    def do_await(self, path: str) -> None:
        while not Path(path).exists() and not self.cancelled.is_set():
            time.sleep(POLL_S)

    def do_run(self, call: dict[str, Any]) -> None:
        """A tool call that is a process tree."""
        self.do_begin({**call, "kind": "execute"})
        code = self._shell(call["shell"], sys.stderr, kill=call.get("kill", True))
        self.do_end({"id": call["id"], "ok": code == 0, "output": f"exit {code}"})

    def do_usage(self, spent: dict[str, Any]) -> None:
        self._spent = spent

    def do_cost(self, amount: float) -> None:
        self.update("usage_update", used=10, size=1000, cost={"amount": amount, "currency": "USD"})

    def do_stop(self, reason: str) -> None:
        self._stop = reason

    def do_fail(self, text: str) -> None:
        raise RuntimeError(text)

    def do_raw(self, text: str) -> None:
        self._wire.raw(text.encode() + b"\n")

    def do_flood(self, count: int) -> None:
        for number in range(count):
            self.do_think(f"flood {number} " + "x" * 1000)

    def do_endless(self, size: int) -> None:
        """Updates of so many bytes, without end."""
        while True:
            self.update("session_info_update", title="x" * size)

    def do_huge(self, size: int) -> None:
        """One line of so many bytes, and no end of line."""
        for _ in range(size // 65536):
            self._wire.raw(b"x" * 65536)

    def do_hang(self, _: bool) -> None:
        """Deaf to everything but SIGKILL."""
        threading.Event().wait()

    def do_crash(self, code: int) -> None:
        os._exit(code)

    def do_kill(self, number: int) -> None:
        os.kill(os.getpid(), number)

    def do_close(self, _: bool) -> None:
        """stdout ends, the process goes on."""
        os.close(1)

    def do_fork(self, count: int) -> None:
        for _ in range(count):
            subprocess.Popen(["sleep", "1000"], stdin=subprocess.DEVNULL, stdout=2, start_new_session=True)

    def do_stderr(self, text: str) -> None:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()

    def do_lie(self, session: str) -> None:
        """An update about a session that is not ours."""
        content = {"type": "text", "text": "a lie"}
        update = {"sessionUpdate": "agent_message_chunk", "content": content}
        self._wire.send(method="session/update", params={"sessionId": session, "update": update})

    def do_request(self, value: list[Any]) -> None:
        """Any request to the client; the answer is said."""
        result = self._wire.ask(value[0], value[1], self.cancelled.is_set)
        self.do_say(f"answer: {json.dumps(result)}")


class Agent:
    def __init__(self, manners: dict[str, Any]) -> None:
        self._wire = Wire()
        self._manners = manners
        self._sessions: dict[str, Session] = {}

    def serve(self) -> None:
        for line in sys.stdin.buffer:
            message = json.loads(line)
            if "method" not in message:
                self._wire.answered(message)
            elif message["method"] == "session/cancel":
                self._sessions[message["params"]["sessionId"]].cancelled.set()
            else:
                threading.Thread(target=self._answer, args=(message,), daemon=True).start()
        if self._manners.get("stays"):
            threading.Event().wait()

    def _answer(self, message: dict[str, Any]) -> None:
        try:
            result = self._do(message["method"], message["params"])
        except Exception as error:  # noqa: BLE001
            self._wire.send(id=message["id"], error={"code": -32603, "message": str(error)})
        else:
            self._wire.send(id=message["id"], result=result)
            if self._manners.get("leaves") and message["method"] == "session/prompt":
                os._exit(0)

    def _do(self, method: str, params: dict[str, Any]) -> Any:
        for step in self._manners.get("at", {}).get(method, []):
            Session(self._wire, "none", {}).play(step)
        match method:
            case "initialize":
                can = {"loadSession": self._manners.get("load", True)}
                version = self._manners.get("version", 1)
                return {"protocolVersion": version, "agentCapabilities": can, "authMethods": []}
            case "session/new":
                session = Session(self._wire, f"s-{uuid.uuid4().hex}", self._manners)
                self._sessions[session.id] = session
                return {"sessionId": session.id, **self._offered()}
            case "session/set_config_option":
                self._choose(params["configId"], params["value"])
                return {"configOptions": []}
            case "session/load":
                if not (KEPT / f"{params['sessionId']}.json").exists():
                    raise LookupError("no such session")
                session = Session(self._wire, params["sessionId"], self._manners)
                self._sessions[session.id] = session
                session.replay()
                return {}
            case "session/prompt":
                return self._sessions[params["sessionId"]].prompt(params["prompt"][0]["text"])
        raise LookupError(f"no method {method}")

    def _offered(self) -> dict[str, Any]:
        """What there is to choose, by `{"offers": {NAME: [VALUE…]}}`."""
        offers = self._manners.get("offers", {})
        return {"configOptions": [_select(name, values) for name, values in offers.items()]} if offers else {}

    def _choose(self, name: str, value: str) -> None:
        if value not in self._manners["offers"][name]:
            raise LookupError(f"no {name} {value}")
        self._manners.setdefault("chosen", {})[name] = value


def _select(name: str, values: list[str]) -> dict[str, Any]:
    listed = [{"value": value, "name": value} for value in values]
    return {"id": name, "name": name, "category": name, "type": "select", "currentValue": values[0], "options": listed}


if __name__ == "__main__":
    given = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
    if given.get("deaf"):
        for ignored in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(ignored, signal.SIG_IGN)
    Agent(given).serve()
