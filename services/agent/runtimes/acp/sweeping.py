"""What a turn started and left behind when it was interrupted is ended.

An agent answers that it has stopped, and a tool's process that went into a session of its own, or does not hear
signals, lives on. What the agent itself needs was there before the turn began, and stays.
"""

import contextlib
import time

from contracts.errors import SandboxExecFailed
from services.agent.stage import Stage

LIMIT_MS = 5000
PASSES = 3
"""What is killed may have started something meanwhile."""

SCRIPT = r"""
mark=$1 asked=$2 age=$3 passes=$4
while [ "$passes" -gt 0 ]; do
  passes=$((passes - 1)) found=
  read -r now _ </proc/uptime
  now=${now%.*}${now#*.}
  late=$((now - asked))
  [ "$late" -ge 0 ] && [ "$late" -lt 1000 ] || late=0
  for process in /proc/[0-9]*; do
    grep -qF "$mark" "$process/environ" 2>/dev/null || continue
    if (set -- $(sed 's/.*) //' "$process/stat"); [ $((now - ${20})) -lt $((age + late)) ]) 2>/dev/null; then
      kill -9 "${process#/proc/}" 2>/dev/null && found=1
    fi
  done
  [ "$found" ] || exit 0
done
"""


async def sweep(stage: Stage, key: str, mark: str, seconds: float) -> None:
    """Ends what has the mark in its environment and is younger than so many seconds.

    In an image without a shell it does nothing.
    """
    # Until it is carried out, all that it looks for grows older, by the clock that it has in common with this service.
    asked = time.clock_gettime(time.CLOCK_BOOTTIME)
    hundredths = [str(int(each * 100)) for each in (asked, seconds)]
    command = ["/bin/sh", "-c", SCRIPT, "sh", mark, *hundredths, str(PASSES)]
    with contextlib.suppress(SandboxExecFailed):
        await stage.commands.run(key, command, timeout_ms=LIMIT_MS)
