"""A program in the place of the CLI, in Python, that speaks its protocol as a test likes."""

import json
from typing import Any

from infra.client import Sandbox
from infra.client.agent_run import AgentRun

HANDSHAKE = json.dumps(
    {
        "type": "control_response",
        "response": {
            "subtype": "success",
            "request_id": "cloche-initialize",
            "response": {"hook_on_failure_supported": True},
        },
    }
)
WORDS = f"""\
import json, os, sys, time
session = next(each.partition("=")[2] for each in sys.argv if each.startswith("--session-id="))
def tell(*frames):
    sys.stdout.write("".join(json.dumps(each) + "\\n" for each in frames))
    sys.stdout.flush()
def hear():
    return json.loads(sys.stdin.readline() or sys.exit(0))
def when(name):
    while not os.path.exists(name):
        time.sleep(0.01)
def ask(name, call, command):
    asked = {{"subtype": "can_use_tool", "tool_name": "Bash", "input": {{"command": command}}, "tool_use_id": call}}
    return {{"type": "control_request", "request_id": name, "request": asked}}
def hook(name, call):
    given = {{"tool_name": "Bash", "tool_input": {{"command": "ls"}}}}
    asked = {{"subtype": "hook_callback", "callback_id": "hook_0", "tool_use_id": call, "input": given}}
    return {{"type": "control_request", "request_id": name, "request": asked}}
def cancel(name):
    return {{"type": "control_cancel_request", "request_id": name}}
def mirror(entries):
    path = f"/tmp/.claude/projects/-workspace/{{session}}.jsonl"
    return {{"type": "transcript_mirror", "filePath": path, "entries": entries}}
def result(**more):
    return {{"type": "result", "subtype": "success", "result": "Done.", **more}}
def keep(name, what):
    with open(name + ".new", "w") as file:
        json.dump(what, file)
    os.rename(name + ".new", name)
def greet():
    hear()
    print({HANDSHAKE!r}, flush=True)
"""


async def start(sandbox: Sandbox, script: str, **order: Any) -> AgentRun:
    """`script` has the words above."""
    await sandbox.files.write("program", f"#!/usr/bin/env python3\n{WORDS}{script}\n")
    await sandbox.run(["chmod", "+x", "program"])
    return await sandbox.agent.start("claude", "Go", options={"cli": "/workspace/program"}, **order)


async def kept(sandbox: Sandbox, name: str) -> Any:
    """What the program has kept under that name, once it has."""
    await sandbox.run(["sh", "-c", f"until [ -e {name} ]; do sleep 0.02; done"])
    return json.loads((await sandbox.files.read(name)).content)
