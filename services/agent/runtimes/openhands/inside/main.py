"""The program: orders are lines of JSON on stdin, what happens lines of JSON on stdout."""

from __future__ import annotations

import asyncio
import ctypes
import os
import sys
import threading

from services.agent.runtimes.openhands.inside.mailbox import Mailbox
from services.agent.runtimes.openhands.inside.out import Out
from services.agent.runtimes.openhands.inside.teller import LONGEST_TEXT
from services.agent.runtimes.openhands.inside.worker import Worker

PR_SET_DUMPABLE = 4
QUIET = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_MODE": "PRODUCTION",
    "OPENHANDS_SUPPRESS_BANNER": "1",
    "DO_NOT_TRACK": "1",
    "LOG_LEVEL": "WARNING",
    "LOG_RICH_TRACEBACKS": "0",
}
"""Nothing is fetched or sent but what the conversation itself needs."""


async def main(out: Out, stdin: int) -> None:
    """Does not return: threads of interrupted tools may never end, and the loop would wait for them."""
    mailbox = Mailbox(stdin, asyncio.get_running_loop())
    threading.Thread(target=mailbox.listen, daemon=True).start()
    code = 1
    try:
        await Worker(out, mailbox).serve()
        code = 0
    except ModuleNotFoundError as missing:
        version = ".".join(map(str, sys.version_info[:2]))
        out.tell("error", code="missing", detail=f"{missing.name} is not there for Python {version} in this image")
    except Exception as failed:  # noqa: BLE001 whatever it is, it is to be told
        out.tell("error", code=type(failed).__name__, detail=str(failed)[:LONGEST_TEXT])
    sys.stderr.flush()
    os._exit(code)


def run() -> None:
    # Otherwise what a tool runs could open our input and output in /proc, and give itself leave.
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    out, stdin = Out(os.dup(1)), os.dup(0)
    os.dup2(2, 1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    out.tell("hello", python=".".join(map(str, sys.version_info[:3])))
    asyncio.run(main(out, stdin))
