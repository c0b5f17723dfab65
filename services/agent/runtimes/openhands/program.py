"""The program that a sandbox runs: the modules of `inside`, handed to the image's own Python as text."""

import json
from functools import cache
from pathlib import Path

PACKAGE = "services.agent.runtimes.openhands.inside"
MODULES = ("out", "processes", "sdk", "transcript", "teller", "mailbox", "worker", "main")
"""Each after those that it imports."""
BOOT = f"""\
import json, sys, types
for name, text in json.loads(sys.argv.pop()).items():
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(text, name, "exec"), module.__dict__)
sys.modules["{PACKAGE}.main"].run()
"""


@cache
def source() -> str:
    here = Path(__file__).with_name("inside")
    return json.dumps({f"{PACKAGE}.{name}": (here / f"{name}.py").read_text() for name in MODULES})


def command(python: str) -> tuple[str, ...]:
    return python, "-c", BOOT, source()
