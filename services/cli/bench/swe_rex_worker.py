"""SWE-ReX's own runtime, called directly: a request a line in, a measurement a line out.

Run as a script by an interpreter that has SWE-ReX, so it imports nothing of Cloche.
"""

import asyncio
import importlib
import json
import sys
import time
from typing import Any


def main() -> None:
    runtime = importlib.import_module("swerex.runtime.local").LocalRuntime()
    command = importlib.import_module("swerex.runtime.abstract").Command
    with asyncio.Runner() as runner:
        for line in sys.stdin:
            asked = json.loads(line)
            order = command(command=asked["command"], shell=isinstance(asked["command"], str), check=True)
            print(json.dumps(runner.run(_measured(runtime, order, asked["at_once"]))), flush=True)


async def _measured(runtime: Any, order: Any, at_once: int) -> dict[str, float]:
    began = time.perf_counter()
    answers = await asyncio.gather(*(runtime.execute(order) for _ in range(at_once)))
    took = time.perf_counter() - began
    return {"seconds": took, "characters": sum(len(answer.stdout) for answer in answers)}


if __name__ == "__main__":
    main()
