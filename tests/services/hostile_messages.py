"""Messages that nobody should send, and what must become of each."""

import json
from typing import Any, NamedTuple

SANDBOX = "victim"
ENDED = "ended"
"""A command of the victim that is over."""
RUNNING = "running"
"""One that is not; it has neither stdin nor a terminal."""


class Bad(NamedTuple):
    name: str
    subject: bytes
    payload: bytes
    code: str
    words: str
    """What the reason must say, so that whoever sent it can see what is wrong."""
    headers: bytes | None = None


def run(data: Any, **head: Any) -> bytes:
    return json.dumps({"id": "x", "type": "command.run", "data": data} | head).encode()


def order(verb: str, data: Any) -> bytes:
    return json.dumps({"id": f"h-{verb}", "type": f"command.{verb}", "data": data}).encode()


def filled(id_: str, size: int) -> bytes:
    """A command of exactly `size` bytes, as large as the bus takes: its record would be larger still."""
    missing = size - len(run({"argv": ["echo", *[""] * 10]}, id=id_))
    arguments = ["x" * (missing // 10)] * 9 + ["x" * (missing - missing // 10 * 9)]
    return run({"argv": ["echo", *arguments]}, id=id_)


def on(verb: str) -> bytes:
    return f"cloche.cmd.local.{SANDBOX}.{verb}".encode()


RUN = on("command.run")
CREATE = b"cloche.cmd.any.made.sandbox.create"
INVALID = "INVALID"

NONSENSE = [
    Bad("empty", RUN, b"", INVALID, "not a command"),
    Bad("zero bytes", RUN, b"\0" * 64, INVALID, "not a command"),
    Bad("garbage", RUN, b"\xff\xfe\x00garbage", INVALID, "not a command"),
    Bad("a megabyte", RUN, b"\xa5" * 1_000_000, INVALID, "not a command"),
    Bad("a megabyte of text", RUN, b"x" * 1_048_576, INVALID, "not a command"),
    Bad("half a command", RUN, run({"shell": "true"})[:-3], INVALID, "not a command"),
    Bad("a number", RUN, b"7", INVALID, "Expected `object`"),
    Bad("a list", RUN, b"[]", INVALID, "Expected `object`"),
    Bad("null", RUN, b"null", INVALID, "Expected `object`"),
    Bad("deep", RUN, b"[" * 500_000, INVALID, "not a command"),
    Bad("deep data", RUN, run(0).replace(b" 0}", b"[" * 200_000 + b"]" * 200_000 + b"}"), INVALID, "not a"),
    Bad("not utf-8", RUN, run({"shell": "@"}).replace(b"@", b"\xc3\x28"), INVALID, "not a"),
    Bad("garbage to create", CREATE, b"\xff\xfe\x00garbage", INVALID, "not a command"),
    Bad("empty to create", CREATE, b"", INVALID, "not a command"),
    Bad("a megabyte to create", CREATE, b"\xa5" * 1_000_000, INVALID, "not a command"),
]

WRONG_ENVELOPE = [
    Bad("no id", RUN, b'{"type":"command.run","data":{"shell":"true"}}', INVALID, "`id`"),
    Bad("no type", RUN, b'{"id":"x","data":{"shell":"true"}}', INVALID, "`type`"),
    Bad("id a number", RUN, run({"shell": "true"}, id=7), INVALID, "$.id"),
    Bad("id empty", RUN, run({"shell": "true"}, id=""), INVALID, "$.id"),
    Bad("id with a dot", RUN, run({"shell": "true"}, id="a.b"), INVALID, "$.id"),
    Bad("id with a star", RUN, run({"shell": "true"}, id="*"), INVALID, "$.id"),
    Bad("id with a line break", RUN, run({"shell": "true"}, id="a\n"), INVALID, "$.id"),
    Bad("id a path", RUN, run({"shell": "true"}, id="../../etc"), INVALID, "$.id"),
    Bad("id not ascii", RUN, run({"shell": "true"}, id="ünï"), INVALID, "$.id"),
    Bad("id too long", RUN, run({"shell": "true"}, id="a" * 65), INVALID, "$.id"),
    Bad("specversion", RUN, run({"shell": "true"}, specversion="2.0"), INVALID, "$.specversion"),
    Bad("time without zone", RUN, run({"shell": "true"}, time="2026-01-01T00:00:00"), INVALID, "$.time"),
    Bad("another type", RUN, run({"exec": "x"}, type="command.signal"), INVALID, "command.signal"),
    Bad("another family's type", RUN, run({}, type="sandbox.remove"), INVALID, "sandbox.remove"),
    Bad("another sandbox", RUN, run({"shell": "true"}, sandboxid="other"), INVALID, "'other'"),
    Bad("create typed as run", CREATE, run({"shell": "true"}), INVALID, "command.run"),
]

WRONG_DATA = [
    Bad("no data", RUN, b'{"id":"x1","type":"command.run"}', INVALID, "exactly one of"),
    Bad("data a string", RUN, run("true"), INVALID, "Expected `object`"),
    Bad("both", RUN, run({"shell": "true", "argv": ["true"]}), INVALID, "exactly one of"),
    Bad("argv a string", RUN, run({"argv": "true"}), INVALID, "$.argv"),
    Bad("argv empty", RUN, run({"argv": []}), INVALID, "$.argv"),
    Bad("argv of numbers", RUN, run({"argv": ["echo", 7]}), INVALID, "$.argv[1]"),
    Bad("argv too many", RUN, run({"argv": ["x"] * 10_001}), INVALID, "$.argv"),
    Bad("an argument too long", RUN, run({"argv": ["echo", "x" * 131_073]}), INVALID, "$.argv[1]"),
    Bad("NUL in argv", RUN, run({"argv": ["echo", "a\0b"]}), INVALID, "$.argv[1]"),
    Bad("NUL in shell", RUN, run({"shell": "echo \0"}), INVALID, "$.shell"),
    Bad("NUL in cwd", RUN, run({"shell": "true", "cwd": "/\0"}), INVALID, "$.cwd"),
    Bad("relative cwd", RUN, run({"shell": "true", "cwd": "here"}), INVALID, "$.cwd"),
    Bad("lone surrogate", RUN, b'{"id":"x","type":"command.run","data":{"shell":"\\ud800"}}', INVALID, "not a"),
    Bad("unknown field", RUN, run({"shell": "true", "shel": "x"}), INVALID, "`shel`"),
    Bad("env name", RUN, run({"shell": "true", "env": {"A=B": "x"}}), INVALID, "$.env"),
    Bad("NUL in env", RUN, run({"shell": "true", "env": {"A": "\0"}}), INVALID, "$.env"),
    Bad("timeout text", RUN, run({"shell": "true", "timeout_ms": "7"}), INVALID, "$.timeout_ms"),
    Bad("timeout negative", RUN, run({"shell": "true", "timeout_ms": -1}), INVALID, "$.timeout_ms"),
    Bad("timeout endless", RUN, run({"shell": "true", "timeout_ms": 10**400}), INVALID, "not a"),
    Bad("pty too wide", RUN, run({"shell": "true", "pty": {"rows": 1, "cols": 10**6}}), INVALID, "$.pty.cols"),
    Bad("spec unknown field", CREATE, b'{"id":"c1","type":"sandbox.create","data":{"spec":{"memory":1}}}', INVALID,
        "`memory`"),
    Bad("spec out of bounds", CREATE,
        b'{"id":"c2","type":"sandbox.create","data":{"spec":{"resources":{"memory_mb":1}}}}', INVALID, "memory_mb"),
    Bad("spec garbage", CREATE, b'{"id":"c3","type":"sandbox.create","data":{"spec":[1]}}', INVALID, "spec"),
    Bad("spec null", CREATE, b'{"id":"c4","type":"sandbox.create","data":{"spec":null}}', INVALID, "spec"),
    Bad("spec isolation", CREATE, b'{"id":"c5","type":"sandbox.create","data":{"spec":{"isolation":"vm"}}}', INVALID,
        "isolation"),
    Bad("no engine", CREATE, b'{"id":"c6","type":"sandbox.create","data":{"spec":{"isolation":"docker"}}}', INVALID,
        "docker"),
]  # fmt: skip

NOWHERE = [
    Bad("unknown verb", on("command.explode"), run({"shell": "true"}), INVALID, "one of run, input"),
    Bad("unknown family", on("spell.cast"), run({"shell": "true"}), INVALID, "no such node or family"),
    Bad("nothing for an agent", on("agent.start"), b"{}", INVALID, "`id`"),
    Bad("unknown verb for an agent", on("agent.explode"), run({}), INVALID, "one of start"),
    Bad("too long a subject", on("command.run.now"), run({"shell": "true"}), INVALID, "<family>.<verb>"),
    Bad("too short a subject", on("command"), run({"shell": "true"}), INVALID, "no such node or family"),
    Bad("hardly a subject", b"cloche.cmd.x", b"{}", INVALID, "no such node or family"),
    Bad("unknown node", b"cloche.cmd.elsewhere.victim.command.run", run({"shell": "true"}), INVALID, "no such node"),
    Bad("run at any node", b"cloche.cmd.any.victim.command.run", run({"shell": "true"}), INVALID, "no such node"),
    Bad("stop a stranger", b"cloche.cmd.local.nobody.sandbox.stop",
        b'{"id":"s1","type":"sandbox.stop","data":{}}', "SANDBOX_NOT_FOUND", "'nobody'"),
    Bad("fork of before its files", on("sandbox.fork"),
        b'{"id":"s2","type":"sandbox.fork","data":{"fork":"other","sequence":1}}', INVALID, "is on record"),
    Bad("wrong move", on("sandbox.resume"), b'{"id":"s3","type":"sandbox.resume","data":{"a":1}}', INVALID, "`a`"),
    Bad("sandbox not a name", b"cloche.cmd.local._x.command.run", run({"shell": "true"}), INVALID, "not a name"),
    Bad("sandbox not ascii", "cloche.cmd.local.ü.command.run".encode(), run({"shell": "true"}), INVALID, "not a name"),
    Bad("sandbox not utf-8", b"cloche.cmd.local.\xff\xfe.command.run", b"{}", INVALID, "not a name"),
    Bad("sandbox not utf-8 to create", b"cloche.cmd.any.\xff.sandbox.create", b"{}", INVALID, "not a name"),
    Bad("node not utf-8", b"cloche.cmd.\xff.a.command.run", b"{}", INVALID, "no such node"),
    Bad("node with quotes", b'cloche.cmd."\\u0000".a.command.run', b"{}", INVALID, "no such node"),
    Bad("control characters", b"cloche.cmd.local.\x01\x1b[31m.command.run", b"{}", INVALID, "not a name"),
    Bad("a wildcard node", b"cloche.cmd.*.a.command.run", b"wild", INVALID, "no such node"),
    Bad("all wildcard", b"cloche.cmd.>", b"wilder", INVALID, "no such node"),
    Bad("a wildcard sandbox", b"cloche.cmd.local.*.command.run", b"wildest", INVALID, "not a name"),
    Bad("a very long node", b"cloche.cmd." + b"n" * 3000 + b".a.command.run", b"{}", INVALID, "no such node"),
]  # fmt: skip

TOO_LATE = [
    Bad("input to nobody", on("command.input"), order("input", {"exec": "never", "data": "x"}), "CONFLICT", "'never'"),
    Bad("signal to nobody", on("command.signal"), order("signal", {"exec": "never"}), "CONFLICT", "'never'"),
    Bad("resize of nobody", on("command.resize"), order("resize", {"exec": "never", "rows": 1, "cols": 1}),
        "CONFLICT", "'never'"),
    Bad("input in an unknown sandbox", b"cloche.cmd.local.nobody.command.input",
        order("input", {"exec": "never", "data": "x"}), "CONFLICT", "'nobody'"),
    Bad("input after the end", on("command.input"), order("input", {"exec": ENDED, "data": "x"}), INVALID, "has ended"),
    Bad("signal after the end", on("command.signal"), order("signal", {"exec": ENDED}), INVALID, "has ended"),
    Bad("resize after the end", on("command.resize"), order("resize", {"exec": ENDED, "rows": 1, "cols": 1}), INVALID,
        "has ended"),
    Bad("input without stdin", on("command.input"), order("input", {"exec": RUNNING, "data": "x"}), INVALID,
        "no_stdin"),
    Bad("resize without a terminal", on("command.resize"), order("resize", {"exec": RUNNING, "rows": 9, "cols": 9}),
        INVALID, "no terminal"),
    Bad("signal 0", on("command.signal"), order("signal", {"exec": RUNNING, "signal": 0}), INVALID, "$.signal"),
    Bad("signal 99", on("command.signal"), order("signal", {"exec": RUNNING, "signal": 99}), INVALID, "$.signal"),
    Bad("no base64", on("command.input"), order("input", {"exec": RUNNING, "data": "=", "encoding": "base64"}),
        INVALID, "base64"),
]  # fmt: skip

HEADERS = [
    Bad("a heartbeat", RUN, b"beat", INVALID, "not a command", headers=b"NATS/1.0 100 Idle Heartbeat\r\n\r\n"),
    Bad("no messages", RUN, b"none", INVALID, "not a command", headers=b"NATS/1.0 404\r\n\r\n"),
    Bad("a heartbeat to create", CREATE, b"beat", INVALID, "not a command",
        headers=b"NATS/1.0 100 Idle Heartbeat\r\n\r\n"),
    Bad("a status header to create", CREATE, b"status", INVALID, "not a command",
        headers=b"NATS/1.0\r\nStatus: 404\r\n\r\n"),
    Bad("a status that is no text", CREATE, b"no text", INVALID, "not a command",
        headers=b"NATS/1.0 \xff\xff\xff\r\n\r\n"),
    Bad("half a header", CREATE, b"half", INVALID, "not a command", headers=b"NATS/1.0"),
    Bad("broken headers", RUN, b"broken", INVALID, "not a command", headers=b"\xff\x00:\r\n::\r\r\n\n"),
    Bad("a status nobody takes", on("spell.cast"), b"status", INVALID, "no such node", headers=b"NATS/1.0 404\r\n\r\n"),
    Bad("a forged sequence", on("spell.cast"), b"forged", INVALID, "no such node",
        headers=b"NATS/1.0\r\nNats-Sequence: 1\r\nNats-Subject: cloche.cmd.local.victim.command.run\r\n\r\n"),
]  # fmt: skip

LETTERS = [*NONSENSE, *HEADERS, *WRONG_ENVELOPE, *WRONG_DATA, *NOWHERE, *TOO_LATE]

REJECTED = [
    Bad("blocked-env", RUN, run({"shell": "true", "env": {"AWS_SECRET_ACCESS_KEY": "x"}}, id="blocked-env"), INVALID,
        "AWS_SECRET_ACCESS_KEY"),
    Bad("no-program", RUN, run({"argv": ["no-such-program"]}, id="no-program"), "SANDBOX_EXEC_FAILED",
        "no-such-program"),
    Bad("empty-program", RUN, run({"argv": [""]}, id="empty-program"), "SANDBOX_EXEC_FAILED", "o such"),
    Bad("no-directory", RUN, run({"shell": "true", "cwd": "/nowhere"}, id="no-directory"), "SANDBOX_EXEC_FAILED",
        "/nowhere"),
    Bad("no-sandbox", b"cloche.cmd.local.nobody.command.run", run({"shell": "true"}, id="no-sandbox"),
        "SANDBOX_NOT_FOUND", "'nobody'"),
    Bad("argument-too-long", RUN, run({"argv": ["echo", "x" * 131_072]}, id="argument-too-long"),
        "SANDBOX_EXEC_FAILED", "too long"),
    Bad("huge-argv", RUN, filled("huge-argv", 1_048_576), INVALID, "too large"),
    Bad("with-a-status", RUN, run({"argv": ["no-such-program"]}, id="with-a-status"), "SANDBOX_EXEC_FAILED",
        "no-such-program", headers=b"NATS/1.0 100 Idle Heartbeat\r\n\r\n"),
]  # fmt: skip
